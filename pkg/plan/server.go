package plan

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"windlass.dev/windlass/pkg/controller/apipath"
)

// Server is the API server as it would be after the planned writes. Its Wrap is the transport of all clients that
// take part in a plan. These clients must send and accept JSON. A Server is safe for concurrent use.
type Server struct {
	// base is the path of the API server, to which the paths of the API are relative. It is empty for most.
	base string

	mu sync.Mutex
	// grown is signaled when changes has grown or failed is set.
	grown *sync.Cond
	// objects are the objects that clients have listed, read or written.
	objects map[ref]*object
	// kinds are the kinds of the resources that clients have listed or written.
	kinds map[schema.GroupResource]schema.GroupVersionKind
	// changes are all changes by planned writes, in order. Watches send them.
	changes []change
	// lists are the lists that clients have requested, by the version that the Server gave each of them.
	lists map[string]selection
	// version is the last resource version that the Server has given.
	version int64
	// writer is the sender of the next writes: see Write.
	writer string
	// due is the time at which they are sent: see Write.
	due    time.Time
	writes []Write
	// denied are rights of the user that the Server has asked for, and whether the user lacks them.
	denied map[access]bool
	// readers have a request for each resource that a client has listed, with which the garbage collector reads objects.
	readers map[schema.GroupResource]*request
	// fates says what happens to the dependents of deleted objects.
	fates map[types.UID]fate
	// failed is the error of the first list that failed.
	failed error
}

// NewServer returns a Server without planned writes. base is the path in the URL of the API server: see rest.Config.
func NewServer(base string) *Server {
	s := &Server{
		base:    strings.TrimSuffix(base, "/"),
		fates:   map[types.UID]fate{},
		objects: map[ref]*object{},
		kinds:   map[schema.GroupResource]schema.GroupVersionKind{},
		lists:   map[string]selection{},
		denied:  map[access]bool{},
		readers: map[schema.GroupResource]*request{},
	}
	s.grown = sync.NewCond(&s.mu)
	return s
}

// Wrap returns a transport whose requests the Server answers. next is the transport to the real API server.
func (s *Server) Wrap(next http.RoundTripper) http.RoundTripper { return transport{s, next} }

type transport struct {
	server *Server
	next   http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	q := &request{
		Request: r, Path: apipath.Parse(strings.TrimPrefix(r.URL.Path, t.server.base)), base: t.server.base, next: t.next,
	}
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if err != nil {
			return nil, err
		}
		q.body = body
	}
	answer, err := t.server.answer(q)
	if err != nil {
		return nil, err
	}
	return answer.response(r), nil
}

// answer answers a request.
func (s *Server) answer(q *request) (*answer, error) {
	if q.Resource.Resource == "" {
		return q.forward(q.Method, q.URL, q.body)
	}
	switch q.Verb(q.Request) {
	case "watch":
		return s.watch(q)
	case "list":
		return s.list(q)
	case "get":
		return s.get(q)
	case "create":
		return s.create(q)
	case "update", "patch":
		return s.modify(q)
	case "delete":
		return s.delete(q)
	}
	return refuse(apierrors.NewMethodNotSupported(q.Resource.GroupResource(), q.Verb(q.Request))), nil
}

// get answers with the planned object, or with the object on the API server if no planned write has changed it. If
// another client has changed or deleted the object since it was listed, the watches send the change.
func (s *Server) get(q *request) (*answer, error) {
	if q.Subresource != "" && q.Subresource != statusField {
		return refuse(apierrors.NewMethodNotSupported(q.Resource.GroupResource(), "get")), nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.objects[q.ref()]
	if known != nil && known.gone {
		return refuse(q.notFound()), nil
	}
	if known != nil && known.state != nil {
		return asRequested(q, known.state), nil
	}
	a, err := q.live()
	if err == nil && known != nil && a.code == http.StatusNotFound {
		s.set(q.ref(), nil)
	}
	if err != nil || !a.ok() {
		return a, err
	}
	live, err := a.object()
	if err != nil {
		return nil, err
	}
	if known != nil && live.GetResourceVersion() != known.stored {
		s.adopt(q.ref(), live)
	}
	return asRequested(q, live), nil
}

// adopt makes clients see an object as it is on the API server.
func (s *Server) adopt(at ref, live *unstructured.Unstructured) {
	live.SetManagedFields(nil)
	version, deleting := live.GetResourceVersion(), live.GetDeletionTimestamp() != nil
	s.set(at, live)
	s.objects[at].stored, s.objects[at].deleting = version, deleting
}

// fail remembers why a list failed.
func (s *Server) fail(q *request, a *answer, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a != nil && a.isTemporary() {
		return
	}
	if err == nil {
		err = a.status()
	}
	if s.failed == nil {
		s.failed = fmt.Errorf("listing %s: %w", q.Resource.GroupResource(), err)
		s.grown.Broadcast()
	}
}

// headroom is the distance between the versions of the API server and the versions of the Server. The API server makes
// fewer changes than that while the caches are filled.
const headroom = 1 << 30

// begin makes all versions of the Server later than the versions of the API server.
func (s *Server) begin(version string) {
	latest, err := strconv.ParseInt(version, 10, 64)
	if err != nil {
		latest = 0
	}
	s.version = latest + headroom
}

// nextVersion returns the next resource version.
func (s *Server) nextVersion() string {
	s.version++
	return strconv.FormatInt(s.version, 10)
}
