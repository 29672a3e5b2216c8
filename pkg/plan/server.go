package plan

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/dynamic"
	authorization "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"

	"windlass.dev/windlass/pkg/controller/apipath"
)

// Server is the API server as it would be after the planned writes. All clients that take part in a plan use the
// transport of Wrap. These clients must send and accept JSON. A Server is safe for concurrent use.
type Server struct {
	// mayLack are the API groups whose types the API server may lack.
	mayLack []string
	// base is the path of the API server, to which the paths of the API are relative. It is empty for most API servers.
	base string
	// client and reviews are clients of the real API server.
	client  dynamic.Interface
	reviews authorization.SelfSubjectAccessReviewInterface

	mu sync.Mutex
	// objects are the objects that clients have listed, read or written.
	objects map[ref]*object
	// kinds are the kinds of the resources that clients have requested, in the version of the first request. The Kind is
	// empty while clients have only listed metadata.
	kinds map[schema.GroupResource]schema.GroupVersionKind
	// changes are all changes by planned writes, in order. Watches send them.
	changes []change
	// grown is closed, and replaced, when changes grows.
	grown chan struct{}
	// lists are the lists that clients have requested, by the resource versions that the Server assigned.
	lists map[string]selection
	// version is the last resource version that the Server has assigned.
	version int64
	// writer is the sender of the next writes: see Write.
	writer string
	// due is the time of the next writes: see Write.
	due    time.Time
	writes []Write
	// denied are the permissions that the Server has asked the API server about, and whether the user lacks each of them.
	denied map[authorizationv1.ResourceAttributes]bool
	// removed are the objects that were deleted.
	removed sets.Set[types.UID]
	// failed is called with each error of a list.
	failed func(error)
}

// NewServer returns a Server without planned writes for the API server of config. mayLack are the API groups whose
// types the API server may lack.
func NewServer(config *rest.Config, mayLack ...string) (*Server, error) {
	to, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("parsing the URL of the API server: %w", err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	reviews, err := authorization.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	return &Server{
		mayLack: mayLack,
		base:    strings.TrimSuffix(to.Path, "/"),
		client:  client,
		reviews: reviews.SelfSubjectAccessReviews(),
		objects: map[ref]*object{},
		kinds:   map[schema.GroupResource]schema.GroupVersionKind{},
		grown:   make(chan struct{}),
		lists:   map[string]selection{},
		denied:  map[authorizationv1.ResourceAttributes]bool{},
		removed: sets.New[types.UID](),
		failed:  func(error) {},
	}, nil
}

// Wrap returns a transport that sends requests to the Server. next is the transport to the real API server.
func (s *Server) Wrap(next http.RoundTripper) http.RoundTripper { return transport{s, next} }

type transport struct {
	server *Server
	next   http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	q := &request{Request: r, Path: apipath.Parse(strings.TrimPrefix(r.URL.Path, t.server.base))}
	response, err := t.respond(q)
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		failure := status.Status()
		failure.APIVersion, failure.Kind = "v1", "Status"
		return q.response(int(failure.Code), failure)
	}
	return response, err
}

// respond returns the response to a request, or the error with which the API server rejects the request.
func (t transport) respond(q *request) (*http.Response, error) {
	verb := q.Verb(q.Request)
	switch {
	case q.Resource.Resource == "":
		return t.next.RoundTrip(q.Request)
	case q.Method != http.MethodDelete && q.isIndependent():
		return t.next.RoundTrip(dry(q.Request))
	case verb == "list":
		return t.server.list(q, t.next)
	case verb == "watch":
		return t.server.watch(q)
	}
	if q.Body != nil {
		body, err := io.ReadAll(q.Body)
		_ = q.Body.Close()
		if err != nil {
			return nil, err
		}
		q.body = body
	}
	obj, err := t.server.answer(q, verb)
	if err != nil {
		return nil, err
	}
	return q.response(http.StatusOK, selection{partial: q.isPartial()}.form(obj))
}

// answer returns the response to a request for one object.
func (s *Server) answer(q *request, verb string) (*unstructured.Unstructured, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.learn(q.Resource, "")
	watched := s.kinds[q.Resource.GroupResource()].GroupVersion()
	switch {
	case verb == "get":
		return s.current(q.Context(), q.ref())
	case verb == "delete":
		return s.delete(q)
	case watched != q.Resource.GroupVersion(): // the Server does not convert objects
		return nil, apierrors.NewBadRequest(fmt.Sprintf("a plan supports only version %s of %s", watched,
			q.Resource.GroupResource()))
	case verb == "create":
		return s.create(q)
	case verb == "update", verb == "patch":
		return s.modify(q)
	}
	return nil, apierrors.NewMethodNotSupported(q.Resource.GroupResource(), verb)
}

// learn remembers the version and the kind of a resource. kind may be empty.
func (s *Server) learn(resource schema.GroupVersionResource, kind string) {
	known, found := s.kinds[resource.GroupResource()]
	switch {
	case !found:
		s.kinds[resource.GroupResource()] = resource.GroupVersion().WithKind(kind)
	case known.Kind == "":
		s.kinds[resource.GroupResource()] = known.GroupVersion().WithKind(kind)
	}
}

// resource returns the resource of an object, in the version in which clients watch it.
func (s *Server) resource(at ref) schema.GroupVersionResource {
	return at.resource.WithVersion(s.kinds[at.resource].Version)
}

// live returns a client for an object on the real API server.
func (s *Server) live(at ref) dynamic.ResourceInterface {
	return s.client.Resource(s.resource(at)).Namespace(at.namespace)
}

// current returns an object as it is after the planned writes. If another client has changed or deleted the object
// since it was listed, the watches send the change.
func (s *Server) current(ctx context.Context, at ref) (*unstructured.Unstructured, error) {
	known := s.objects[at]
	switch {
	case known != nil && known.gone:
		return nil, apierrors.NewNotFound(at.resource, at.name)
	case known != nil && known.state != nil:
		return known.state, nil
	}
	live, err := s.live(at).Get(ctx, at.name, metav1.GetOptions{})
	if err != nil {
		if known != nil && apierrors.IsNotFound(err) {
			s.set(at, nil)
		}
		return nil, err
	}
	live.SetManagedFields(nil)
	s.learn(s.resource(at), live.GetKind())
	switch {
	case known == nil:
		s.objects[at] = &object{Object: live}
	case live.GetResourceVersion() != known.GetResourceVersion():
		s.set(at, live)
	}
	return live, nil
}

// headroom is the distance between the versions of the API server and the versions of the Server. The API server makes
// fewer than headroom changes while the caches are filled.
const headroom = 1 << 30

// nextVersion returns the next resource version. All versions are higher than the version of the first list.
func (s *Server) nextVersion(first string) string {
	if s.version == 0 {
		latest, _ := strconv.ParseInt(first, 10, 64) // without a number, the versions begin with headroom
		s.version = latest + headroom
	}
	s.version++
	return strconv.FormatInt(s.version, 10)
}
