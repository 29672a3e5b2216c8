package claims

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/children"
)

// Delete deletes the claims with these names of an owner that is being deleted. It ignores claims that the owner does
// not own, or has never applied. It deletes none if the object of the type workload with the name of the owner belongs
// to nobody or to somebody else, because the children may have been orphaned. Kubernetes removes a claim when no Pod
// uses it any more.
//
// Delete reads all objects from the API server, because a claim that the cache lacks would never be deleted.
func Delete[W children.Object](
	ctx context.Context, owner children.Owner, workload *children.Type[W],
	claims *children.Type[*corev1.PersistentVolumeClaim], names ...string,
) error {
	live, found, err := workload.Live(ctx, owner, owner.GetName())
	if err != nil || found && !metav1.IsControlledBy(live, owner) {
		return err
	}
	var errs []error
	for _, name := range names {
		errs = append(errs, claims.PruneLive(ctx, owner, name))
	}
	return controller.Join(errs...)
}
