package plan

import (
	"errors"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// Write is a planned write, or a statement that a controller would execute on another server: see Server.Execute.
type Write struct {
	// Writer is the object whose reconcile sent the write, such as "App shop/web". It is GarbageCollector for the writes
	// of the garbage collector, and empty for writes that were sent while no object was reconciled.
	Writer string
	// Verb is create, update, patch, delete or Execute.
	Verb        string
	Resource    schema.GroupVersionResource
	Kind        string
	Namespace   string
	Name        string
	Subresource string
	// Body is the body of the request, or the statement. It is empty for a deletion.
	Body []byte
	// Before and After are the object before and after the write. Before is nil for a new object, and After for a
	// deleted object.
	Before, After *unstructured.Unstructured
	// Unchecked is true if the API server could not check the write: the namespace does not exist yet, or the user may
	// not send the write.
	Unchecked bool
	// Due is the time at which the operator sends the write. It is zero if the operator does not wait for a time.
	Due time.Time
	// Err is the error with which the API server rejects the write, or nil.
	Err error
}

// GarbageCollector is the Writer of the writes of the garbage collector.
const GarbageCollector = "garbage collector"

// Execute is the Verb of a statement.
const Execute = "execute"

// Writes returns all planned writes in order. The result and the objects in it must not be changed.
func (s *Server) Writes() []Write {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clip(s.writes)
}

// Execute records a statement that the writer of the next writes would execute on another server.
func (s *Server) Execute(statement string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes = append(s.writes, Write{Writer: s.writer, Due: s.due, Verb: Execute, Body: []byte(statement)})
}

// setWriter sets the Writer of the next writes, and the time at which the operator sends them. Zero means at once.
func (s *Server) setWriter(writer string, due time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writer, s.due = writer, due
}

// record records a write.
func (s *Server) record(q *request, w Write) {
	w.Writer, w.Due = s.writer, s.due
	w.Verb, w.Resource = q.Verb(q.Request), q.Resource
	w.Namespace, w.Name, w.Subresource = q.Namespace, q.Name, q.Subresource
	for _, obj := range []*unstructured.Unstructured{w.Before, w.After} {
		if obj != nil {
			w.Kind, w.Name = obj.GetKind(), obj.GetName()
		}
	}
	if w.Verb != "delete" {
		w.Body = q.body
	}
	s.writes = append(s.writes, w)
}

// rejected records a write that the API server rejects with err. It returns err. It records nothing if err is not an
// error of the API server, or if the write is a dry run.
func (s *Server) rejected(q *request, w Write, err error) error {
	if !q.isDryRun() && errors.As(err, new(apierrors.APIStatus)) {
		w.Err = err
		s.record(q, w)
	}
	return err
}

// create responds to a creation as the API server would if the planned writes had happened.
func (s *Server) create(q *request) (*unstructured.Unstructured, error) {
	want, err := decode(q.body)
	if err != nil {
		return nil, err
	}
	at := q.ref()
	at.name = want.GetName()
	if known := s.objects[at]; known != nil && !known.gone {
		return nil, s.rejected(q, Write{After: want}, apierrors.NewAlreadyExists(at.resource, at.name))
	}
	made, unchecked, err := s.tryCreating(q, at, want)
	if err != nil {
		return nil, s.rejected(q, Write{After: want}, err)
	}
	if q.isDryRun() {
		return made, nil
	}
	complete(made)
	s.learn(q.Resource, made.GetKind())
	at.name = made.GetName()
	s.set(at, made)
	s.record(q, Write{After: made, Unchecked: unchecked})
	return made, nil
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
func decode(body []byte) (*unstructured.Unstructured, error) {
	obj := &unstructured.Unstructured{}
	err := obj.UnmarshalJSON(body)
	if _, ok := obj.Object["metadata"].(map[string]any); err != nil || !ok {
		return nil, apierrors.NewBadRequest("the body is not an object")
	}
	return obj, nil
}
