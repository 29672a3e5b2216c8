package children

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/controller"
)

// Remove deletes a child as it was seen, and what it owns before it: one that has
// changed since, as when somebody has orphaned it, is a conflict. One that belongs to
// somebody else is left alone.
func (t *Type[T]) Remove(ctx context.Context, owner Owner, live T) error {
	uid, version, foreground := live.GetUID(), live.GetResourceVersion(), metav1.DeletePropagationForeground
	return t.delete(ctx, owner, live, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}, PropagationPolicy: &foreground,
	})
}

// IsRemoved tells whether this process has deleted a child, whatever the cache says.
func (t *Type[T]) IsRemoved(owner Owner, child T) bool {
	return t.Guard.IsFinished(owner.key(), t.describe(child), child.GetUID())
}

// Release lets a child go: it takes the owner's reference and the owner's labels off it, and
// leaves all else, so that Ensure can take it back. Tools that recognise by a label what they
// have applied delete objects that bear it, are not in git and have no owner reference.
func (t *Type[T]) Release(ctx context.Context, owner Owner, live T) (T, error) {
	if !owner.Bears(live) {
		return live, nil
	}
	change := map[string]any{"ownerReferences": withoutReference(live, owner)}
	if labels := labelsOf(owner, live); len(labels) > 0 {
		change["labels"] = labels
	}
	return t.setMeta(ctx, owner, live, change, "letting go")
}

// labelsOf returns a patch that takes off a child the labels that it has from its owner.
func labelsOf(owner Owner, live metav1.Object) map[string]any {
	removed := map[string]any{}
	for key, value := range owner.GetLabels() {
		if key != controller.ManagedByLabel && live.GetLabels()[key] == value {
			removed[key] = nil
		}
	}
	return removed
}

// Reclaim takes back a child that was let go, and leaves all else. One that belongs to
// somebody else is Taken. It goes by what the owner has of Owner.Confirm and Owner.Live.
func (t *Type[T]) Reclaim(ctx context.Context, owner Owner, live T) (T, error) {
	if !t.owns(owner, live) {
		return live, owner.Taken(t.Kind, live)
	}
	if err := owner.Recheck(ctx, getsChild); err != nil {
		return live, err
	}
	refs := append(withoutReference(live, owner), *metav1.NewControllerRef(owner, owner.Kind))
	return t.setMeta(ctx, owner, live, map[string]any{"ownerReferences": refs}, "taking back")
}

func (t *Type[T]) setMeta(ctx context.Context, owner Owner, live T, change map[string]any, doing string) (T, error) {
	patch, err := onlyFor(live, map[string]any{"metadata": change})
	if err != nil {
		return live, fmt.Errorf("%s %s: %w", doing, t.describe(live), err)
	}
	return t.write(ctx, owner, live, patch, doing)
}

func withoutReference(child metav1.Object, owner Owner) []metav1.OwnerReference {
	return slices.DeleteFunc(slices.Clone(child.GetOwnerReferences()), func(ref metav1.OwnerReference) bool { return ref.UID == owner.GetUID() })
}

// Bears tells whether a child bears a reference to this owner, be it as the one that
// controls it or not: with the last such owner it goes.
func (o Owner) Bears(child metav1.Object) bool {
	return slices.ContainsFunc(child.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return ref.UID == o.GetUID() })
}

// Made tells whether this owner has made a child under the name that it has: a copy
// under another name has the owner's reference and record too.
func (o Owner) Made(child metav1.Object) bool {
	record := recordOn(child)
	return recordedOwner(child) == o.GetUID() && record.GetName() == child.GetName() && record.GetNamespace() == child.GetNamespace()
}

// confirm returns an error if what is there may not be changed.
func (o Owner) confirm(ctx context.Context) error {
	if o.Confirm == nil {
		return nil
	}
	return o.Confirm(ctx)
}
