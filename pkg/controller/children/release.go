package children

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Remove deletes a child with foreground propagation: after the objects that the child owns. It returns a
// conflict if the child has changed, for example because it was orphaned. Remove ignores an object that
// the owner does not own.
func (t *Type[T]) Remove(ctx context.Context, owner Owner, live T) error {
	uid, version, foreground := live.GetUID(), live.GetResourceVersion(), metav1.DeletePropagationForeground
	return t.delete(ctx, owner, live, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}, PropagationPolicy: &foreground,
	})
}

// IsRemoved reports whether this process has deleted child, which the cache may still have.
func (t *Type[T]) IsRemoved(owner Owner, child T) bool {
	return t.Tracker.IsDeleted(owner.key(), t.describe(child), child.GetUID())
}

// Release removes the owner reference from a child. Everything else stays, so that Reclaim can restore the owner
// reference.
func (t *Type[T]) Release(ctx context.Context, owner Owner, live T) (T, error) {
	if !owner.IsReferredToBy(live) {
		return live, nil
	}
	return t.setMeta(ctx, owner, live, map[string]any{"ownerReferences": withoutReference(live, owner)}, "releasing")
}

// Reclaim restores the owner reference of a released child, and changes nothing else. It returns the
// error of Owner.Taken for an object that does not belong to owner. It calls Owner.Live and Owner.Confirm
// before the write.
func (t *Type[T]) Reclaim(ctx context.Context, owner Owner, live T) (T, error) {
	if !t.owns(owner, live) {
		return live, owner.Taken(t.Kind, live)
	}
	if err := owner.ConfirmNotDeleted(); err != nil {
		return live, err
	}
	refs := append(withoutReference(live, owner), *metav1.NewControllerRef(owner, owner.Kind))
	return t.setMeta(ctx, owner, live, map[string]any{"ownerReferences": refs}, "reclaiming")
}

func (t *Type[T]) setMeta(ctx context.Context, owner Owner, live T, change map[string]any, doing string) (T, error) {
	patch, err := onlyFor(live, map[string]any{"metadata": change})
	if err != nil {
		return live, fmt.Errorf("%s %s: %w", doing, t.describe(live), err)
	}
	return t.write(ctx, owner, live, types.MergePatchType, patch, doing)
}

func withoutReference(child metav1.Object, owner Owner) []metav1.OwnerReference {
	return slices.DeleteFunc(slices.Clone(child.GetOwnerReferences()), func(ref metav1.OwnerReference) bool {
		return ref.UID == owner.GetUID()
	})
}

// IsReferredToBy reports whether child has an owner reference to the owner, controlling or not. Garbage collection
// deletes a child when no owner in its owner references exists any more.
func (o Owner) IsReferredToBy(child metav1.Object) bool {
	return slices.ContainsFunc(child.GetOwnerReferences(), func(ref metav1.OwnerReference) bool {
		return ref.UID == o.GetUID()
	})
}

// Made reports whether the record of child has the name of child and the UID of the owner. A user's copy of
// a child under another name has the same owner reference and record as the child.
func (o Owner) Made(child metav1.Object) bool {
	record := Recorded(child)
	return recordedOwner(child) == o.GetUID() && record.GetName() == child.GetName() &&
		record.GetNamespace() == child.GetNamespace()
}
