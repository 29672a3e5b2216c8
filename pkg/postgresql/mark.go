package postgresql

import (
	"fmt"
	"regexp"
)

// Mark identifies the object that a role or a database belongs to. It is stored as a comment on the role or
// the database.
type Mark struct {
	// Namespace and Name are for people. UID alone identifies the object.
	Namespace, Name, UID string
	// HandedOver means that the operator did not create the role or the database: an administrator handed it over. The
	// operator does not change the attributes and the password of such a role, except to retire the role after a rotation.
	// It does not change the privileges of such a database.
	HandedOver bool
}

const (
	markPrefix     = "windlass.dev/externaldatabase"
	markHandedOver = " handed-over"
)

// String returns the comment that marks a role or a database.
func (m Mark) String() string {
	text := fmt.Sprintf("%s %s/%s %s", markPrefix, m.Namespace, m.Name, m.UID)
	if m.HandedOver {
		text += markHandedOver
	}
	return text
}

var markPattern = regexp.MustCompile(`^` + regexp.QuoteMeta(markPrefix) +
	` ([a-z0-9-]{1,63})/([a-z0-9.-]{1,253}) ([A-Za-z0-9-]{1,64})(` + markHandedOver + `)?$`)

// parseMark parses a comment. It returns false for a comment that is not a Mark, or has names that no
// Kubernetes object can have.
func parseMark(comment string) (Mark, bool) {
	parts := markPattern.FindStringSubmatch(comment)
	if parts == nil {
		return Mark{}, false
	}
	return Mark{Namespace: parts[1], Name: parts[2], UID: parts[3], HandedOver: parts[4] != ""}, true
}
