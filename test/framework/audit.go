package framework

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Request is a request in the audit log, to which the API server has responded.
type Request struct {
	Verb           string
	RequestURI     string
	User           User
	ObjectRef      ObjectRef
	ResponseStatus struct {
		Code    int
		Message string // empty unless the request failed
	}
	StageTimestamp time.Time // the time of the response
	// RequestReceivedTimestamp is the time at which the API server received the request.
	RequestReceivedTimestamp time.Time
	Annotations              map[string]string
}

// User is the user of a request.
type User struct {
	Username string
	Extra    map[string][]string
}

// Credential returns the ID of the token of the request. Each kubeconfig of ServiceAccountKubeconfig has a different
// token.
func (u User) Credential() string {
	return strings.Join(u.Extra["authentication.kubernetes.io/credential-id"], "")
}

// Unauthorized reports whether the API server denied the request because its user lacks a permission.
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
	text, err := os.ReadFile(c.audited.path)
	return string(text), err
}

// audited holds the part of the audit log that has been read.
type audited struct {
	path string

	mu       sync.Mutex
	offset   int64
	requests []Request
	pending  map[string]Request // writes without a response, by audit ID
}

// auditedIn returns the reader of the audit log of the cluster with its files in dir.
func auditedIn(dir string) *audited {
	return &audited{path: filepath.Join(dir, "audit.log"), pending: map[string]Request{}}
}

// responseTimeout is how long Requests waits for responses. It exceeds the 60 s after which the API server ends a
// request.
const responseTimeout = 90 * time.Second

// Requests returns the logged requests for which keep returns true, in the order of their responses. The API server
// logs a response after the effect of the write is visible, so Requests first waits for the responses to all writes
// that the API server has received. The result therefore contains every write whose effect the caller has seen.
func (c *Cluster) Requests(keep func(Request) bool) ([]Request, error) {
	if err := c.audited.awaitResponses(); err != nil {
		return nil, fmt.Errorf("reading the audit log: %w", err)
	}
	c.audited.mu.Lock()
	defer c.audited.mu.Unlock()
	var kept []Request
	for _, r := range c.audited.requests {
		if keep(r) {
			kept = append(kept, r)
		}
	}
	return kept, nil
}

// awaitResponses waits for the responses to the writes that the API server has received before the call.
func (a *audited) awaitResponses() error {
	received, err := a.read()
	if err != nil || len(received) == 0 {
		return err
	}
	err = wait.PollUntilContextTimeout(context.Background(), 10*time.Millisecond, responseTimeout, true,
		func(context.Context) (bool, error) {
			pending, err := a.read()
			maps.DeleteFunc(received, func(id string, _ Request) bool { _, found := pending[id]; return !found })
			return len(received) == 0, err
		})
	if err != nil {
		return fmt.Errorf("waiting for the responses to %v: %w", slices.Collect(maps.Values(received)), err)
	}
	return nil
}

// forgetPending removes the pending writes, because an API server that has ended does not respond to them.
func (a *audited) forgetPending() error {
	if _, err := a.read(); err != nil {
		return fmt.Errorf("reading the audit log: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.pending)
	return nil
}

// read reads the lines that were added since the last call, and returns the pending writes. It does not read earlier
// lines again, because tests poll Requests.
func (a *audited) read() (pending map[string]Request, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	file, err := os.Open(a.path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if _, err := file.Seek(a.offset, io.SeekStart); err != nil {
		return nil, err
	}
	for lines := bufio.NewReader(file); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return maps.Clone(a.pending), nil // the last line may be incomplete
		}
		if err := a.add(line); err != nil {
			return nil, err
		}
		a.offset += int64(len(line))
	}
}

// add adds one line of the log.
func (a *audited) add(line string) error {
	var event struct {
		Stage, AuditID string
		Request
	}
	if err := json.Unmarshal([]byte(line), &event); err != nil {
		return err
	}
	if event.Stage == "RequestReceived" {
		a.pending[event.AuditID] = event.Request
		return nil
	}
	delete(a.pending, event.AuditID)
	if event.Stage == "ResponseComplete" {
		a.requests = append(a.requests, event.Request)
	}
	return nil
}
