package postgresql

import (
	"fmt"
	"regexp"
)

// Mark says, as a comment on a role or a database, for which object it is kept.
type Mark struct {
	// Namespace and Name are told to people; the UID alone decides.
	Namespace, Name, UID string
}

const markPrefix = "windlass.dev/externaldatabase"

// String is the comment.
func (m Mark) String() string {
	return fmt.Sprintf("%s %s/%s %s", markPrefix, m.Namespace, m.Name, m.UID)
}

var markPattern = regexp.MustCompile(`^` + regexp.QuoteMeta(markPrefix) + ` ([a-z0-9-]{1,63})/([a-z0-9.-]{1,253}) ([A-Za-z0-9-]{1,64})$`)

// parseMark reads a comment; false if it is somebody's own words, such as a mark that names
// what no object of Kubernetes is called.
func parseMark(comment string) (Mark, bool) {
	parts := markPattern.FindStringSubmatch(comment)
	if parts == nil {
		return Mark{}, false
	}
	return Mark{Namespace: parts[1], Name: parts[2], UID: parts[3]}, true
}
