package database

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/kinds/internal/claims"
)

// Finalize deletes the claim if deletionPolicy is Delete. The other children are garbage-collected.
func (r *reconciler) Finalize(ctx context.Context, db *v1alpha1.Database) (controller.Result, error) {
	if len(claimsToDelete(db)) == 0 {
		return controller.Result{}, nil
	}
	deletion := claims.Deletion[*v1alpha1.Database, *appsv1.StatefulSet]{
		Get: r.databases.Databases(db.Namespace).Get, Names: claimsToDelete, Workload: r.statefulSet.Type(),
		Claims: r.claim.Type(),
	}
	err := deletion.Delete(ctx, children.Owner{Object: db, Kind: groupVersionKind})
	if err != nil {
		err = fmt.Errorf("deleting the volume of Database %s/%s (to keep it, set deletionPolicy to Retain): %w",
			db.Namespace, db.Name, err)
		setBlocked(db, err)
	}
	return controller.Result{}, err
}

// claimsToDelete returns the name of the claim if it is deleted with the Database. It returns none while the children
// are being orphaned: the Database then has the finalizer orphan.
func claimsToDelete(db *v1alpha1.Database) []string {
	if db.Spec.DeletionPolicy != v1alpha1.DeletionDelete ||
		slices.Contains(db.Finalizers, metav1.FinalizerOrphanDependents) {
		return nil
	}
	return []string{db.Name}
}
