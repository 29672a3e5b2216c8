package database

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/kinds/internal/claims"
)

// Finalize deletes the claim if deletionPolicy is Delete. The other children are garbage-collected. Kubernetes removes
// the claim when no Pod uses it any more.
//
// Finalize reads the Database, the StatefulSet and the claim from the API server. The caches are not
// sufficient: no precondition of the deletion can check the Database, or whether its children are orphaned,
// and a claim that the cache lacks would never be deleted.
func (r *reconciler) Finalize(ctx context.Context, db *v1alpha1.Database) (controller.Result, error) {
	if !deletesData(db) {
		return controller.Result{}, nil
	}
	err := r.deleteData(ctx, db)
	if err != nil {
		err = fmt.Errorf("deleting the volume of Database %s/%s (to keep it, set deletionPolicy to Retain): %w",
			db.Namespace, db.Name, err)
		setBlocked(db, err)
	}
	return controller.Result{}, err
}

// deleteData deletes the claim, unless the API server has another Database or deletionPolicy than the cache, or the
// children were orphaned.
func (r *reconciler) deleteData(ctx context.Context, db *v1alpha1.Database) error {
	live, err := r.databases.Databases(db.Namespace).Get(ctx, db.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return controller.ErrDeletionNotObserved
	}
	if err == nil && (live.UID != db.UID || !deletesData(live)) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the Database: %w", err)
	}
	owner := children.Owner{Object: db, Kind: groupVersionKind}
	return claims.Delete(ctx, owner, r.statefulSet.Type(), r.claim.Type(), db.Name)
}

// deletesData reports whether the spec and the finalizers of the Database let the operator delete the claim. The
// Database has the finalizer orphan while its children are being orphaned. Afterwards, the children have no owner
// reference.
func deletesData(db *v1alpha1.Database) bool {
	return db.Spec.DeletionPolicy == v1alpha1.DeletionDelete &&
		!slices.Contains(db.Finalizers, metav1.FinalizerOrphanDependents)
}
