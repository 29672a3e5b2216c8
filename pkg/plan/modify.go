package plan

import (
	"net/http"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// modify responds to an update or a patch.
func (s *Server) modify(q *request) (*unstructured.Unstructured, error) {
	current, err := s.current(q.Context(), q.ref())
	if err != nil {
		return nil, s.rejected(q, Write{}, err)
	}
	after, unchecked, err := s.modified(q, current)
	if err != nil {
		return nil, s.rejected(q, Write{Before: current}, err)
	}
	if q.isDryRun() {
		return after, nil
	}
	switch {
	case isSame(current, after):
		after = current // no event
	case after.GetDeletionTimestamp() != nil && len(after.GetFinalizers()) == 0:
		s.set(q.ref(), nil)
	default:
		s.set(q.ref(), after)
	}
	s.record(q, Write{Before: current, After: after, Unchecked: unchecked})
	return after, nil
}

// modified returns the object after a write, or the error with which the write is rejected. unchecked is true if the
// API server could not check the write: see Write.
func (s *Server) modified(
	q *request, current *unstructured.Unstructured,
) (after *unstructured.Unstructured, unchecked bool, err error) {
	o, isStatus := s.objects[q.ref()], q.Subresource == statusField
	isFirst := o.state == nil && q.Method == http.MethodPatch
	want, wrong := q.apply(current)
	var result *unstructured.Unstructured
	switch {
	case wrong != nil && !isFirst:
		return nil, false, wrong
	case isFirst:
		result, err = s.tryPatching(q)
	case o.made && isStatus:
		return merged(current, want, true), true, nil // the API server has no object with this status
	case o.made:
		made, unchecked, err := s.tryCreating(q, q.ref(), asNew(want))
		return merged(current, made, false), unchecked, err
	default:
		result, err = s.tryReplacing(q, want)
	}
	switch {
	case err == nil && o.state == nil:
		result.SetManagedFields(nil)
		return result, false, nil
	case err == nil:
		return merged(current, result, isStatus), false, nil
	case !s.isUnchecked(q, q.Verb(q.Request), err):
		return nil, false, err
	case wrong != nil:
		return nil, false, wrong
	}
	return merged(current, want, isStatus), true, nil
}
