package claims

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/children"
)

// Delete deletes the claims with these names of an owner that is being deleted. It ignores claims that the owner does
// not own. It deletes none if the child with the name of the owner, of the type workload, was orphaned. Kubernetes
// removes a claim when no Pod uses it any more.
//
// Delete reads all objects from the API server, because a claim that the cache lacks would never be deleted.
func Delete[W children.Object](
	ctx context.Context, owner children.Owner, workload *children.Type[W],
	claims *children.Type[*corev1.PersistentVolumeClaim], names ...string,
) error {
	live, found, err := workload.Live(ctx, owner, owner.GetName())
	if err != nil || found && owner.Orphaned(live) {
		return err
	}
	var errs []error
	for _, name := range names {
		errs = append(errs, claims.PruneLive(ctx, owner, name))
	}
	return controller.Join(errs...)
}
