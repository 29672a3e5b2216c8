package plan

import (
	"cmp"
	"context"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
)

// collect does what the garbage collector does after the planned deletions: it deletes dependents that the Server
// knows, or removes their owner references, and removes the finalizers for deletion in the foreground. It reports
// whether it changed an object. The rules are in https://kubernetes.io/docs/concepts/architecture/garbage-collection/.
func (s *Server) collect(ctx context.Context) (changed bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	waiting := sets.New[types.UID]()
	for _, o := range s.objects {
		if o.waitsForDependents() {
			waiting.Insert(o.GetUID())
		}
	}
	for _, at := range s.sorted() {
		did, err := s.collectOne(ctx, at, waiting)
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

// waitsForDependents reports whether planned writes have requested the deletion of an object in the foreground.
func (o *object) waitsForDependents() bool {
	return o.state != nil && o.state.GetDeletionTimestamp() != nil &&
		slices.Contains(o.state.GetFinalizers(), metav1.FinalizerDeleteDependents)
}

// collectOne deletes an object if all its owners are deleted or wait for their dependents. If only some of its owners
// are deleted or wait, collectOne removes the references to these owners. It reports whether it changed the object.
func (s *Server) collectOne(ctx context.Context, at ref, waiting sets.Set[types.UID]) (changed bool, err error) {
	o := s.objects[at]
	if o.gone {
		return false, nil
	}
	owners := o.GetOwnerReferences()
	solid := slices.DeleteFunc(slices.Clone(owners), func(owner metav1.OwnerReference) bool {
		return s.removed.Has(owner.UID) || waiting.Has(owner.UID)
	})
	if len(solid) == len(owners) {
		return false, nil
	}
	current, err := s.current(ctx, at)
	switch {
	case apierrors.IsNotFound(err): // another client has deleted the object
		return false, nil
	case err != nil:
		return false, err
	}
	w := Write{
		Writer: GarbageCollector, Resource: s.resource(at), Kind: current.GetKind(), Namespace: at.namespace, Name: at.name,
		Before: current,
	}
	switch {
	case len(solid) > 0:
		w.Verb, w.After = "patch", current.DeepCopy()
		w.After.SetOwnerReferences(solid)
	case current.GetDeletionTimestamp() != nil:
		return false, nil
	default:
		opts := metav1.DeleteOptions{}
		if slices.ContainsFunc(owners, func(owner metav1.OwnerReference) bool { return waiting.Has(owner.UID) }) {
			opts.PropagationPolicy = ptr.To(metav1.DeletePropagationForeground)
		}
		w.Verb, w.After = "delete", terminating(current, opts)
	}
	s.set(at, w.After)
	s.writes = append(s.writes, w)
	return true, nil
}

// finish removes the finalizer with which a deleted object waits for its dependents, if no dependent blocks the object.
// It reports whether it has removed the finalizer.
func (s *Server) finish(at ref) bool {
	o := s.objects[at]
	if !o.waitsForDependents() || s.isBlocked(o.GetUID()) {
		return false
	}
	after := o.state.DeepCopy()
	after.SetFinalizers(slices.DeleteFunc(after.GetFinalizers(), func(finalizer string) bool {
		return finalizer == metav1.FinalizerDeleteDependents
	}))
	if len(after.GetFinalizers()) == 0 {
		after = nil
	}
	s.set(at, after)
	return true
}

// isBlocked reports whether an object that is deleted in the foreground has to wait for a dependent.
func (s *Server) isBlocked(uid types.UID) bool {
	for _, o := range s.objects {
		if !o.gone && slices.ContainsFunc(o.GetOwnerReferences(), func(owner metav1.OwnerReference) bool {
			return owner.UID == uid && ptr.Deref(owner.BlockOwnerDeletion, false)
		}) {
			return true
		}
	}
	return false
}

// sorted returns all objects in a fixed order.
func (s *Server) sorted() []ref {
	return slices.SortedFunc(maps.Keys(s.objects), func(a, b ref) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.resource.String(), b.resource.String()),
			cmp.Compare(a.name, b.name))
	})
}
