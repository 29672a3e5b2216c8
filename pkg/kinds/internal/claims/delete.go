package claims

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/children"
)

// Deletion deletes the claims of owners of type O that are being deleted.
type Deletion[O controller.Object, W children.Object] struct {
	// Get returns the owner from the API server.
	Get func(ctx context.Context, name string, opts metav1.GetOptions) (O, error)
	// Names returns the names of the claims that are deleted with an owner.
	Names func(O) []string
	// Workload is the type of the child whose Pods use the claims. The child has the name of the owner.
	Workload *children.Type[W]
	Claims   *children.Type[*corev1.PersistentVolumeClaim]
}

// Delete deletes the claims of an owner. It ignores claims that the owner does not own, or has never applied. It
// deletes nothing if the workload exists and the owner does not control it, because the children may have been
// orphaned. Kubernetes removes a claim when no Pod uses it any more.
//
// Delete reads all objects from the API server. The caches are not sufficient: no precondition of the deletion can
// check the owner, or whether its children are orphaned, and a claim that the cache lacks would never be deleted.
func (d Deletion[O, W]) Delete(ctx context.Context, owner children.Owner) error {
	live, err := d.Get(ctx, owner.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return controller.ErrDeletionNotObserved
	}
	if err != nil {
		return fmt.Errorf("reading %s %s/%s: %w", owner.Kind.Kind, owner.GetNamespace(), owner.GetName(), err)
	}
	names := d.Names(live)
	if live.GetUID() != owner.GetUID() || len(names) == 0 {
		return nil
	}
	workload, found, err := d.Workload.Live(ctx, owner, owner.GetName())
	if err != nil || found && !metav1.IsControlledBy(workload, owner) {
		return err
	}
	var errs []error
	for _, name := range names {
		errs = append(errs, d.Claims.PruneLive(ctx, owner, name))
	}
	return controller.Join(errs...)
}
