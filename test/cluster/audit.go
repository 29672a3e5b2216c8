package cluster

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
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

// audited is what was read of the audit log so far.
type audited struct {
	mu       sync.Mutex
	offset   int64
	requests []Request
}

// Requests returns the requests so far for which keep is true, in the order of
// their answers.
func (c *Cluster) Requests(keep func(Request) bool) ([]Request, error) {
	c.audited.mu.Lock()
	defer c.audited.mu.Unlock()
	if err := c.audited.goOn(filepath.Join(c.dir, "audit.log")); err != nil {
		return nil, fmt.Errorf("reading the audit log: %w", err)
	}
	var kept []Request
	for _, r := range c.audited.requests {
		if keep(r) {
			kept = append(kept, r)
		}
	}
	return kept, nil
}

// goOn reads what the log has more since the last time: tests that wait for a request read it
// again and again.
func (a *audited) goOn(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := file.Seek(a.offset, io.SeekStart); err != nil {
		return err
	}
	for lines := bufio.NewReader(file); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return nil // the last line may be half written
		}
		var event struct {
			Stage string
			Request
		}
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			return err
		}
		a.offset += int64(len(line))
		if event.Stage == "ResponseComplete" {
			a.requests = append(a.requests, event.Request)
		}
	}
}
