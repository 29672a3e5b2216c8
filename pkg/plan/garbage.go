package plan

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/controller/apipath"
)

// keep remembers how to read the objects of a resource, for the garbage collector.
func (s *Server) keep(q *request) {
	of := q.Resource.GroupResource()
	if s.readers[of] == nil {
		s.readers[of] = &request{
			Request: q.Clone(context.WithoutCancel(q.Context())), Path: apipath.Path{
				Resource: q.Resource,
			}, base: q.base, next: q.next,
		}
	}
}

// Collect does what the garbage collector does after the planned deletions: it deletes or releases the dependents that
// the Server knows of, and removes the finalizers that delay a deletion for it. It reports whether it changed an
// object. The rules are in https://kubernetes.io/docs/concepts/architecture/garbage-collection/.
func (s *Server) Collect(ctx context.Context) (changed bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	owners := s.deletedOwners()
	for _, at := range s.sorted() {
		o := s.objects[at]
		if o.gone || len(o.owners) == 0 {
			continue
		}
		did, err := s.collectOne(ctx, at, o, owners)
		if err != nil {
			return changed, err
		}
		changed = changed || did
	}
	for _, at := range s.sorted() {
		changed = s.finish(at) || changed
	}
	return changed, nil
}

// fate says what happens to the dependents of an object.
type fate int

const (
	stays    fate = iota // the object exists
	released             // the object is being deleted, and releases its dependents
	waited               // the object is being deleted, and waits for its dependents
	removed              // the object was deleted
)

// deletedOwners returns the fates of all objects that planned writes have deleted, or have requested to delete.
func (s *Server) deletedOwners() map[types.UID]fate {
	fates := maps.Clone(s.fates)
	for _, o := range s.objects {
		switch {
		case o.gone:
		case o.state == nil || o.state.GetDeletionTimestamp() == nil:
		case slices.Contains(o.state.GetFinalizers(), metav1.FinalizerOrphanDependents):
			fates[o.uid] = released
		case slices.Contains(o.state.GetFinalizers(), metav1.FinalizerDeleteDependents):
			fates[o.uid] = waited
		}
	}
	return fates
}

// collectOne deletes or releases one dependent.
func (s *Server) collectOne(
	ctx context.Context, at ref, o *object, owners map[types.UID]fate,
) (changed bool, err error) {
	with := func(wanted ...fate) (found []metav1.OwnerReference) {
		for _, owner := range o.owners {
			if slices.Contains(wanted, owners[owner.UID]) {
				found = append(found, owner)
			}
		}
		return found
	}
	solid, waiting := with(stays), with(waited)
	if len(solid) == len(o.owners) {
		return false, nil
	}
	current, err := s.read(ctx, at)
	if err != nil || current == nil {
		return false, err
	}
	w := Write{
		Writer: GarbageCollector, Resource: s.readers[at.resource].Resource, Kind: current.GetKind(),
		Namespace: at.namespace, Name: at.name, Before: current,
	}
	switch {
	case len(solid) > 0 || len(with(released)) > 0:
		w.Verb, w.After = "patch", current.DeepCopy()
		w.After.SetOwnerReferences(solid)
	case current.GetDeletionTimestamp() != nil:
		return false, nil
	case len(waiting) > 0:
		w.Verb = "delete"
		w.After = terminating(current, &metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationForeground)})
	default:
		w.Verb, w.After = "delete", terminating(current, &metav1.DeleteOptions{})
	}
	s.set(at, w.After)
	s.writes = append(s.writes, w)
	return true, nil
}

// finish removes the finalizers with which a deleted object waits for the garbage collector.
func (s *Server) finish(at ref) bool {
	o := s.objects[at]
	if o.gone || o.state == nil || o.state.GetDeletionTimestamp() == nil || s.isBlocked(o.uid) {
		return false
	}
	own := func(f string) bool {
		return f == metav1.FinalizerDeleteDependents || f == metav1.FinalizerOrphanDependents
	}
	if !slices.ContainsFunc(o.state.GetFinalizers(), own) {
		return false
	}
	if slices.Contains(o.state.GetFinalizers(), metav1.FinalizerOrphanDependents) {
		s.fates[o.uid] = released
	}
	after := o.state.DeepCopy()
	after.SetFinalizers(slices.DeleteFunc(after.GetFinalizers(), own))
	if len(after.GetFinalizers()) == 0 {
		after = nil
	}
	s.set(at, after)
	return true
}

// isBlocked reports whether an object that is deleted in the foreground has to wait for a dependent.
func (s *Server) isBlocked(uid types.UID) bool {
	for _, o := range s.objects {
		if !o.gone && slices.ContainsFunc(o.owners, func(owner metav1.OwnerReference) bool {
			return owner.UID == uid && ptr.Deref(owner.BlockOwnerDeletion, false)
		}) {
			return true
		}
	}
	return false
}

// read returns an object as it is after the planned writes, or nil if it does not exist.
func (s *Server) read(ctx context.Context, at ref) (*unstructured.Unstructured, error) {
	reader := s.readers[at.resource]
	if reader == nil {
		return nil, nil // no client has requested such objects, so no client learns of the deletion
	}
	q := &request{Request: reader.WithContext(ctx), Path: reader.Path, base: reader.base, next: reader.next}
	q.Namespace, q.Name = at.namespace, at.name
	current, refusal, err := s.current(q)
	switch {
	case err != nil || refusal == nil:
		return current, err
	case refusal.code == http.StatusNotFound:
		s.set(at, nil)
		return nil, nil
	}
	return nil, refusal.status()
}

// sorted returns all objects in a fixed order.
func (s *Server) sorted() []ref {
	text := func(r schema.GroupResource) string { return r.String() }
	return slices.SortedFunc(maps.Keys(s.objects), func(a, b ref) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(text(a.resource), text(b.resource)),
			cmp.Compare(a.name, b.name))
	})
}
