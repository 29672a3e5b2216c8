package database

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
)

// Finalize implements controller.Finalizer: it deletes the claim if the Database says
// so. The rest goes by garbage collection, and the claim's volume once no Pod has it.
//
// What decides is read from the API server: no precondition of the claim's deletion
// can say what the Database says now, nor that its children are not orphaned, and a
// claim that the cache does not have would be left for ever.
func (r *reconciler) Finalize(ctx context.Context, db *v1alpha1.Database) (controller.Result, error) {
	r.refusals.forget(db.UID)
	if !deletesData(db) {
		return controller.Result{}, nil
	}
	live, err := r.databases.Databases(db.Namespace).Get(ctx, db.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return controller.Result{}, controller.AwaitDeletion()
	}
	if err == nil && (live.UID != db.UID || !deletesData(live)) {
		return controller.Result{}, nil
	}
	if err != nil {
		return controller.Result{}, fmt.Errorf("reading Database %s/%s before its data is deleted: %w", db.Namespace, db.Name, err)
	}
	owner := newScope(db).owner
	set, found, err := r.statefulSets.Live(ctx, owner, db.Name)
	if err != nil || found && owner.Orphaned(set) {
		return controller.Result{}, err
	}
	return controller.Result{}, r.claims.PruneLive(ctx, owner, db.Name)
}

// deletesData tells whether the claim goes. While children are being orphaned there is
// a finalizer that says so; once they are, they say so themselves.
func deletesData(db *v1alpha1.Database) bool {
	return db.Spec.DeletionPolicy == v1alpha1.DeletionDelete && !slices.Contains(db.Finalizers, metav1.FinalizerOrphanDependents)
}
