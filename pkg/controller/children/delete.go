package children

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Prune deletes a child that is no longer desired. It ignores an object that owner does not own, and a child that
// outlives its owner if owner has never applied it.
func (t *Type[T]) Prune(ctx context.Context, owner Owner, name string) error {
	live, err := t.cached(ctx, owner.GetNamespace(), name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading %s %s/%s from the cache: %w", t.Kind, owner.GetNamespace(), name, err)
	}
	return t.prune(ctx, owner, live)
}

// PruneLive is Prune for a child that must be deleted even if the cache lacks it. It reads the child from
// the API server.
func (t *Type[T]) PruneLive(ctx context.Context, owner Owner, name string) error {
	live, found, err := t.Live(ctx, owner, name)
	if err != nil || !found {
		return err
	}
	return t.prune(ctx, owner, live)
}

func (t *Type[T]) prune(ctx context.Context, owner Owner, live T) error {
	return t.delete(ctx, owner, live, *metav1.NewPreconditionDeleteOptions(string(live.GetUID())))
}

func (t *Type[T]) delete(ctx context.Context, owner Owner, live T, how metav1.DeleteOptions) error {
	if !t.mayDelete(owner, live) || live.GetDeletionTimestamp() != nil || t.IsRemoved(owner, live) {
		return nil
	}
	if err := owner.confirm(ctx); err != nil {
		return err
	}
	t.Tracker.Sends(owner.key())
	err := t.Client(live.GetNamespace()).Delete(ctx, live.GetName(), how)
	if apierrors.IsNotFound(err) {
		return t.awaitDeletion(owner, live.GetNamespace(), live.GetName())
	}
	if err != nil {
		return fmt.Errorf("deleting %s: %w", t.describe(live), err)
	}
	t.Tracker.Deleted(owner.key(), t.describe(live), live.GetUID())
	return nil
}
