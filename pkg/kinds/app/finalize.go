package app

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/children"
	windlassv1alpha1 "windlass.dev/windlass/pkg/generated/clientset/versioned/typed/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/kinds/internal/claims"
)

// finalizerName is the finalizer of an App with a claim whose deletionPolicy is Delete.
const finalizerName = "windlass.dev/app"

// finalizer deletes the claims whose deletionPolicy is Delete when their App is deleted. The other children are
// garbage-collected.
//
// The claims have no owner reference for this: a backup tool would restore it with the UID of the previous App, and
// garbage collection would delete the restored claim.
type finalizer struct {
	apps        windlassv1alpha1.AppsGetter
	deployments *children.Declaration[*scope, *appsv1.Deployment]
	volumes     *volumeClaims
}

func (f finalizer) declare() controller.Finalizer[*v1alpha1.App] {
	return controller.Finalizer[*v1alpha1.App]{Name: finalizerName, Needed: deletesClaims, Finalize: f.finalize}
}

func deletesClaims(app *v1alpha1.App) bool { return len(claimsToDelete(app)) > 0 }

// claimsToDelete returns the names of the claims that are deleted with the App. It returns none while the children are
// being orphaned: the App then has the finalizer orphan.
func claimsToDelete(app *v1alpha1.App) (names []string) {
	if slices.Contains(app.Finalizers, metav1.FinalizerOrphanDependents) {
		return nil
	}
	for i := range app.Spec.Volumes {
		v := &app.Spec.Volumes[i]
		if v.Claim != nil && v.Claim.DeletionPolicy == v1alpha1.DeletionDelete {
			names = append(names, claimName(app, v))
		}
	}
	return names
}

func (f finalizer) finalize(ctx context.Context, app *v1alpha1.App) (controller.Result, error) {
	if !deletesClaims(app) {
		return controller.Result{}, nil
	}
	deletion := claims.Deletion[*v1alpha1.App, *appsv1.Deployment]{
		Get: f.apps.Apps(app.Namespace).Get, Names: claimsToDelete, Workload: f.deployments.Type(), Claims: &f.volumes.owned,
	}
	err := deletion.Delete(ctx, children.Owner{Object: app, Kind: groupVersionKind})
	if err != nil {
		err = fmt.Errorf("deleting the volumes of App %s/%s (to keep a volume, set its deletionPolicy to Retain): %w",
			app.Namespace, app.Name, err)
		return controller.Result{}, setBlocked(app, false, err)
	}
	return controller.Result{}, nil
}
