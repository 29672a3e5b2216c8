package plan

import (
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// modify answers an update or a patch.
func (s *Server) modify(q *request) (*answer, error) {
	if q.Subresource != "" && q.Subresource != statusField {
		return q.forward(q.Method, dry(q.URL), q.body)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if wrong := s.otherVersion(q); wrong != nil {
		return refuse(wrong), nil
	}
	s.keep(q)
	current, refusal, err := s.current(q)
	if err != nil {
		return nil, err
	}
	if refusal != nil {
		return s.record(q, Write{}, refusal), nil
	}
	after, unchecked, refusal, err := s.modified(q, current)
	if err != nil {
		return nil, err
	}
	if refusal != nil {
		return s.refused(q, current, refusal)
	}
	w := Write{Before: current, After: after, Unchecked: unchecked}
	switch {
	case isSame(current, after):
		w.After = current // no event
	case after.GetDeletionTimestamp() != nil && len(after.GetFinalizers()) == 0:
		s.set(q.ref(), nil)
	default:
		s.set(q.ref(), after)
	}
	return s.record(q, w, asRequested(q, w.After)), nil
}

// current returns the object of a write as it is after the planned writes, or the answer to the write if there is no
// such object.
func (s *Server) current(q *request) (current *unstructured.Unstructured, refusal *answer, err error) {
	at := q.ref()
	if o := s.objects[at]; o != nil && o.gone {
		return nil, refuse(q.notFound()), nil
	} else if o != nil && o.state != nil {
		return o.state, nil, nil
	}
	a, err := q.live()
	if err != nil || !a.ok() {
		return nil, a, err
	}
	current, err = a.object()
	if err != nil {
		return nil, nil, err
	}
	current.SetManagedFields(nil)
	if s.objects[at] == nil {
		s.objects[at] = unchanged(current)
		s.kinds[at.resource] = current.GroupVersionKind()
	}
	return current, nil, nil
}

// modified returns the object after a write, or the answer if the write is refused. The API server checks the write, if
// it can.
func (s *Server) modified(
	q *request, current *unstructured.Unstructured,
) (after *unstructured.Unstructured, unchecked bool, refusal *answer, err error) {
	o := s.objects[q.ref()]
	want, wrong := q.apply(current)
	if o.state != nil && wrong != nil {
		return nil, false, refuse(wrong), nil
	}
	isStatus := q.Subresource == statusField
	var a *answer
	switch {
	case o.state == nil:
		a, unchecked, err = s.try(q, q.ref(), q.Method, q.URL, q.body)
	case o.stored != "":
		a, unchecked, err = s.replace(q, o, want)
	case isStatus:
		return merged(current, want, true), true, nil, nil // the API server has no object with this status
	default:
		a, unchecked, err = s.trySending(q, http.MethodPost,
			q.urlOf(ref{resource: q.ref().resource, namespace: q.Namespace}, ""), asNew(want))
	}
	switch {
	case err != nil:
		return nil, false, nil, err
	case unchecked && wrong != nil:
		return nil, false, refuse(wrong), nil
	case unchecked && !a.ok():
		return merged(current, want, isStatus), true, nil, nil
	case !a.ok():
		return nil, false, a, nil
	}
	result, err := a.object()
	if err != nil {
		return nil, false, nil, err
	}
	if version := result.GetResourceVersion(); version != "" && o.stored != "" {
		o.stored = version
	}
	if o.state == nil {
		result.SetManagedFields(nil)
		return result, unchecked, nil, nil
	}
	result.SetNamespace(q.Namespace)
	return merged(current, result, isStatus), unchecked, nil, nil
}

// replace sends an object that planned writes have changed before as a whole. If another client has changed the object
// on the API server, replace sends it again for the newest version there: the planned writes have seen no version of
// it.
func (s *Server) replace(
	q *request, o *object, want *unstructured.Unstructured,
) (a *answer, unchecked bool, err error) {
	sent := want.DeepCopy()
	if !o.deleting { // no update may set these fields
		unstructured.RemoveNestedField(sent.Object, "metadata", "deletionTimestamp")
		unstructured.RemoveNestedField(sent.Object, "metadata", "deletionGracePeriodSeconds")
	}
	for range 2 {
		sent.SetResourceVersion(o.stored)
		a, unchecked, err = s.trySending(q, http.MethodPut, q.urlOf(q.ref(), q.Subresource), sent)
		if err != nil || a.code != http.StatusConflict {
			return a, unchecked, err
		}
		live, err := q.live()
		if err != nil || !live.ok() {
			return a, unchecked, err
		}
		obj, err := live.object()
		if err != nil || obj.GetUID() != sent.GetUID() {
			return a, unchecked, err
		}
		o.stored = obj.GetResourceVersion()
	}
	return a, unchecked, err
}

// otherVersion returns the error for a write in another API version than the version in which clients watch the
// resource. The Server does not convert objects.
func (s *Server) otherVersion(q *request) *apierrors.StatusError {
	watched, known := s.kinds[q.Resource.GroupResource()]
	if !known || watched.Version == q.Resource.Version {
		return nil
	}
	return apierrors.NewBadRequest(fmt.Sprintf("a plan supports only version %s of %s", watched.GroupVersion(),
		q.Resource.GroupResource()))
}

// refused answers a write that is refused. If another client has changed the object since it was listed, the write is
// not part of the plan: the watches send the change, and the client writes again.
func (s *Server) refused(q *request, current *unstructured.Unstructured, refusal *answer) (*answer, error) {
	if refusal.code == http.StatusConflict {
		if changed, err := s.refresh(q); err != nil || changed {
			return refusal, err
		}
	}
	return s.record(q, Write{Before: current}, refusal), nil
}

// refresh makes clients see an object that another client has changed since it was listed. changed is false if no other
// client has changed it.
func (s *Server) refresh(q *request) (changed bool, err error) {
	known := s.objects[q.ref()]
	if known.state != nil {
		return false, nil // the client has not observed its own writes yet
	}
	a, err := q.live()
	if err != nil || !a.ok() {
		return false, err
	}
	live, err := a.object()
	if err != nil || live.GetResourceVersion() == known.stored {
		return false, err
	}
	s.adopt(q.ref(), live)
	return true, nil
}
