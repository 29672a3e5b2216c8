package cluster

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Request is one request that the API server has answered.
type Request struct {
	Verb           string
	User           struct{ Username string }
	ObjectRef      ObjectRef
	ResponseStatus struct{ Code int }
	StageTimestamp time.Time // of the answer
	// RequestReceivedTimestamp is when it came in.
	RequestReceivedTimestamp time.Time
	Annotations              map[string]string
}

// Unauthorized tells whether the request was refused for want of rights.
func (r Request) Unauthorized() bool {
	return r.Annotations["authorization.k8s.io/decision"] == "forbid"
}

// ObjectRef is what a request was about.
type ObjectRef struct {
	APIGroup, Resource, Subresource, Namespace, Name string
}

// String is the request without its user: "update ats/status default/example-at".
func (r Request) String() string {
	resource := r.ObjectRef.Resource
	if r.ObjectRef.Subresource != "" {
		resource += "/" + r.ObjectRef.Subresource
	}
	return fmt.Sprintf("%s %s %s/%s", r.Verb, resource, r.ObjectRef.Namespace, r.ObjectRef.Name)
}

// AuditLog is all that the API server has noted of requests.
func (c *Cluster) AuditLog() (string, error) {
	text, err := os.ReadFile(filepath.Join(c.dir, "audit.log"))
	return string(text), err
}

// Requests returns the requests so far for which keep is true, in the order of
// their answers.
func (c *Cluster) Requests(keep func(Request) bool) ([]Request, error) {
	file, err := os.Open(filepath.Join(c.dir, "audit.log"))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var kept []Request
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return kept, nil // the last line may be half written
		}
		var event struct {
			Stage string
			Request
		}
		if err := json.NewDecoder(strings.NewReader(line)).Decode(&event); err != nil {
			return nil, fmt.Errorf("reading the audit log: %w", err)
		}
		if event.Stage == "ResponseComplete" && keep(event.Request) {
			kept = append(kept, event.Request)
		}
	}
}
