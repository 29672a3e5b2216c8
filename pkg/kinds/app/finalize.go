package app

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// claimsToDelete returns the names of the claims that are deleted with the App. The App has the finalizer orphan while
// its children are being orphaned. Afterwards, the children have no owner reference.
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
	err := f.deleteClaims(ctx, app)
	if err != nil {
		err = fmt.Errorf("deleting the volumes of App %s/%s (to keep a volume, set its deletionPolicy to Retain): %w",
			app.Namespace, app.Name, err)
		return controller.Result{}, setBlocked(app, false, err)
	}
	return controller.Result{}, nil
}

// deleteClaims deletes the claims that the App on the API server names, because the cache can have another
// deletionPolicy.
func (f finalizer) deleteClaims(ctx context.Context, app *v1alpha1.App) error {
	live, err := f.apps.Apps(app.Namespace).Get(ctx, app.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return controller.ErrDeletionNotObserved
	}
	if err != nil {
		return fmt.Errorf("reading the App: %w", err)
	}
	names := claimsToDelete(live)
	if live.UID != app.UID || len(names) == 0 {
		return nil
	}
	owner := children.Owner{Object: app, Kind: groupVersionKind}
	return claims.Delete(ctx, owner, f.deployments.Type(), &f.volumes.owned, names...)
}
