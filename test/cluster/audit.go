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

// Request is a request in the audit log, to which the API server has responded.
type Request struct {
	Verb           string
	User           struct{ Username string }
	ObjectRef      ObjectRef
	ResponseStatus struct {
		Code    int
		Message string // only of an error
	}
	StageTimestamp time.Time // the time of the response
	// RequestReceivedTimestamp is the time at which the API server received the request.
	RequestReceivedTimestamp time.Time
	Annotations              map[string]string
}

// Unauthorized reports whether the API server denied the request because its user lacks a right.
func (r Request) Unauthorized() bool {
	return r.Annotations["authorization.k8s.io/decision"] == "forbid"
}

// ObjectRef is the object or collection that a request names.
type ObjectRef struct {
	APIGroup, Resource, Subresource, Namespace, Name string
}

// String returns the request without its user: "update ats/status default/example-at".
func (r Request) String() string {
	resource := r.ObjectRef.Resource
	if r.ObjectRef.Subresource != "" {
		resource += "/" + r.ObjectRef.Subresource
	}
	return fmt.Sprintf("%s %s %s/%s", r.Verb, resource, r.ObjectRef.Namespace, r.ObjectRef.Name)
}

// AuditLog returns the text of the API server's audit log.
func (c *Cluster) AuditLog() (string, error) {
	text, err := os.ReadFile(filepath.Join(c.dir, "audit.log"))
	return string(text), err
}

// audited holds the part of the audit log that has been read.
type audited struct {
	mu       sync.Mutex
	offset   int64
	requests []Request
}

// Requests returns the requests so far for which keep returns true, in the order of
// their responses.
func (c *Cluster) Requests(keep func(Request) bool) ([]Request, error) {
	c.audited.mu.Lock()
	defer c.audited.mu.Unlock()
	if err := c.audited.readMore(filepath.Join(c.dir, "audit.log")); err != nil {
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

// readMore reads the lines that were added since the last call. It does not read earlier lines again, because tests
// poll Requests.
func (a *audited) readMore(path string) error {
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
			return nil // the last line may be incomplete
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
