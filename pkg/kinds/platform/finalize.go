package platform

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
)

// deletionRecheck is how often a Platform is reconciled while its children are being deleted, in case the
// event of a deletion is lost.
const deletionRecheck = 30 * time.Second

// Finalize releases the children of Unmanaged components, and deletes the other children, each before its dependencies.
// The namespace stays. If the deletion orphans the children, Finalize changes nothing.
func (r *reconciler) Finalize(ctx context.Context, platform *v1alpha1.Platform) (controller.Result, error) {
	if orphans(platform) {
		return controller.Result{}, nil
	}
	p, err := r.newScope(ctx, platform)
	if err != nil {
		return controller.Result{}, err
	}
	err = r.carryOut(ctx, p)
	left := slices.DeleteFunc(slices.Clone(p.components), func(c *component) bool { return !c.ours || !c.bound })
	if err == nil && len(left) > 0 {
		err = messageDeleting.Wait(deletionRecheck, len(left), openMessage(left, left))
	}
	if err == nil {
		err = r.releaseUnseen(ctx, p)
	}
	if controller.Degrades(platform, err) {
		err = fmt.Errorf("deleting the components (to keep a component, set its managementState to Unmanaged): %w", err)
	}
	if err != nil {
		setDeleting(platform, p.components, err)
	}
	return controller.Result{}, err
}

// releaseUnseen reads the children of Unmanaged components from the API server and releases them. The cache
// may be outdated, and garbage collection deletes every child that still refers to the Platform.
func (r *reconciler) releaseUnseen(ctx context.Context, p *scope) error {
	for _, c := range p.components {
		if c.state != v1alpha1.Unmanaged {
			continue
		}
		child, err := c.kind.live(ctx, p.platform.Spec.Namespace, childName(p.platform, c.name))
		if err != nil {
			return err
		}
		if child == nil && c.there {
			return controller.ErrDeletionNotObserved
		}
		if child == nil {
			continue
		}
		_, err = c.kind.Release(ctx, p.owner, child)
		if apierrors.IsNotFound(err) {
			return controller.ErrDeletionNotObserved // the child existed just now
		}
		if err != nil {
			return explain(p.platform, c, err)
		}
	}
	return nil
}

// orphans reports whether the deletion of a Platform orphans its children. Garbage collection then removes
// their owner references.
func orphans(platform *v1alpha1.Platform) bool {
	return slices.Contains(platform.Finalizers, metav1.FinalizerOrphanDependents)
}
