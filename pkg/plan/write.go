package plan

import (
	"encoding/json"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// Write is a planned write.
type Write struct {
	// Writer is the object whose reconcile sent the write, such as "App shop/web"; GarbageCollector; or empty for a
	// write that was sent while no object was reconciled.
	Writer string
	// Verb is create, update, patch or delete.
	Verb        string
	Resource    schema.GroupVersionResource
	Kind        string
	Namespace   string
	Name        string
	Subresource string
	// Body is the body of the request. It is empty for a deletion.
	Body []byte
	// Before and After are the object before and after the write. Before is nil for a new object, and After for a
	// deleted object.
	Before, After *unstructured.Unstructured
	// Unchecked is true if the API server could not check the write: the namespace does not exist yet, or the user may
	// not send the write.
	Unchecked bool
	// Due is the time at which the operator sends the write, if it waits for a time. Otherwise it is zero.
	Due time.Time
	// Err is the error with which the API server refused the write, or nil.
	Err error
}

// GarbageCollector is the Writer of the writes of the garbage collector.
const GarbageCollector = "garbage collector"

// Writes returns all planned writes in order. An object in it must not be changed.
func (s *Server) Writes() []Write {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.writes)
}

// refusals returns the number of refused writes.
func (s *Server) refusals() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.writes {
		if s.writes[i].Err != nil {
			n++
		}
	}
	return n
}

// Writer returns the Writer of the next writes.
func (s *Server) Writer() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writer
}

// setWriter sets the Writer of the next writes.
func (s *Server) setWriter(writer string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writer = writer
}

// setDue sets the time at which the operator sends the next writes. Zero means at once.
func (s *Server) setDue(due time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.due = due
}

// record records a write. It returns the answer.
func (s *Server) record(q *request, w Write, a *answer) *answer {
	w.Due = s.due
	w.Writer, w.Verb, w.Resource, w.Body = s.writer, q.Verb(q.Request), q.Resource, q.body
	w.Namespace, w.Name, w.Subresource = q.Namespace, q.Name, q.Subresource
	for _, obj := range []*unstructured.Unstructured{w.Before, w.After} {
		if obj != nil {
			w.Kind, w.Name = obj.GetKind(), obj.GetName()
		}
	}
	if w.Verb == "delete" {
		w.Body = nil
	}
	if !a.ok() {
		w.Err = a.status()
	}
	s.writes = append(s.writes, w)
	return a
}

// create answers as the API server would answer if the planned writes had happened.
func (s *Server) create(q *request) (*answer, error) {
	want, err := q.decode()
	if err != nil {
		return refuse(apierrors.NewBadRequest(err.Error())), nil
	}
	if q.Subresource != "" || isReview(q.Resource.Group) || q.isDry() {
		return q.forward(q.Method, dry(q.URL), q.body)
	}
	at := ref{q.Resource.GroupResource(), q.Namespace, want.GetName()}
	s.mu.Lock()
	defer s.mu.Unlock()
	if wrong := s.otherVersion(q); wrong != nil {
		return refuse(wrong), nil
	}
	s.keep(q)
	if known := s.objects[at]; known != nil && !known.gone {
		w := Write{After: want}
		return s.record(q, w, refuse(apierrors.NewAlreadyExists(at.resource, at.name))), nil
	}
	a, unchecked, err := s.try(q, at, http.MethodPost, q.URL, q.body)
	if err != nil {
		return nil, err
	}
	if !unchecked && !a.ok() {
		return s.record(q, Write{After: want}, a), nil
	}
	made := want.DeepCopy()
	if a.ok() {
		if made, err = a.object(); err != nil {
			return nil, err
		}
		made.SetNamespace(q.Namespace)
	}
	complete(made)
	at.name = made.GetName()
	s.set(at, made)
	return s.record(q, Write{After: made, Unchecked: unchecked}, found(http.StatusCreated, made)), nil
}

// complete sets the fields that the API server sets when it creates an object.
func complete(made *unstructured.Unstructured) {
	if made.GetUID() == "" {
		made.SetUID(uuid.NewUUID())
	}
	if made.GetName() == "" {
		made.SetName(made.GetGenerateName() + string(made.GetUID()[:5]))
	}
	if created := made.GetCreationTimestamp(); created.IsZero() {
		made.SetCreationTimestamp(metav1.Now())
	}
	if made.GetGeneration() == 0 && made.Object["spec"] != nil {
		made.SetGeneration(1)
	}
	made.SetManagedFields(nil)
}

// decode returns the object in the body of a request.
func (q *request) decode() (*unstructured.Unstructured, error) {
	obj := &unstructured.Unstructured{}
	return obj, json.Unmarshal(q.body, &obj.Object)
}

// preconditionsOf returns the error for an object that has not the UID or version that a write requires.
func preconditionsOf(
	q *request, current *unstructured.Unstructured, uid types.UID, version string,
) *apierrors.StatusError {
	switch {
	case uid != "" && uid != current.GetUID():
		return apierrors.NewConflict(q.Resource.GroupResource(), q.Name, errOther)
	case version != "" && version != current.GetResourceVersion():
		return apierrors.NewConflict(q.Resource.GroupResource(), q.Name, errChanged)
	}
	return nil
}
