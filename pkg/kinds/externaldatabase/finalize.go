package externaldatabase

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/kinds/internal/credentials"
	"windlass.dev/windlass/pkg/postgresql"
)

// Finalize implements controller.Finalizer: it deletes role and database if deletionPolicy is Delete.
// The Secret is garbage-collected.
func (r *reconciler) Finalize(ctx context.Context, db *v1alpha1.ExternalDatabase) (controller.Result, error) {
	err := r.deleteDatabase(ctx, db)
	if err != nil {
		setBlocked(db, err)
	}
	return controller.Result{}, err
}

func (r *reconciler) deleteDatabase(ctx context.Context, db *v1alpha1.ExternalDatabase) error {
	if goes, err := r.deletesData(ctx, db); err != nil || !goes {
		return err
	}
	const hint = "deleting role and database (deletionPolicy Retain would leave them, and let this ExternalDatabase go): %w"
	admin, err := r.lastConnection(ctx, db)
	if err != nil {
		return fmt.Errorf(hint, err)
	}
	server := r.open(db.Namespace, admin)
	defer server.Close()
	if err := server.Delete(ctx, desiredDatabase(db, "")); err != nil {
		return explain(ctx, db, fmt.Errorf(hint, err))
	}
	return nil
}

// deletesData reports whether role and database have to be deleted, and may exist.
//
// It reads the ExternalDatabase and its Secret from the API server: an SQL statement can have no
// precondition on the ExternalDatabase, or on whether its Secret is orphaned.
func (r *reconciler) deletesData(ctx context.Context, db *v1alpha1.ExternalDatabase) (bool, error) {
	if !saysDelete(db) {
		return false, nil
	}
	live, err := r.live.ExternalDatabases(db.Namespace).Get(ctx, db.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, controller.AwaitDeletion()
	}
	if err == nil && (live.UID != db.UID || !saysDelete(live)) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading ExternalDatabase %s/%s before its database is deleted: %w", db.Namespace, db.Name, err)
	}
	owner := newScope(db).owner
	secret, found, err := r.secrets.Live(ctx, owner, credentials.Name(db.Name))
	switch {
	case err != nil:
		return false, err
	case !found:
		// The Secret is created before role and database, and the status has it before they exist.
		return live.Status.ExternalID != "" || live.Status.Binding != nil, nil
	}
	return !owner.Orphaned(secret), nil
}

// saysDelete reports whether the spec and the finalizers of the ExternalDatabase let the database be
// deleted. The ExternalDatabase has the finalizer orphan while its Secret is being orphaned. Afterwards
// the Secret has no owner reference.
func saysDelete(db *v1alpha1.ExternalDatabase) bool {
	return db.Spec.DeletionPolicy == v1alpha1.DeletionDelete && !slices.Contains(db.Finalizers, metav1.FinalizerOrphanDependents)
}

// lastConnection returns the settings in the connection Secret or, if the Secret is gone, the settings
// that were last read from it: the objects of a namespace are deleted in any order.
func (r *reconciler) lastConnection(ctx context.Context, db *v1alpha1.ExternalDatabase) (postgresql.Settings, error) {
	key := connectionKey(db)
	admin, err := r.connections.get(ctx, key)
	if err == nil || controller.ReasonOf(err) != reasonMissing {
		return admin, err
	}
	if last, ok := r.connections.last(key); ok && last.err == nil {
		return last.settings, nil
	}
	return admin, controller.WaitFor(reasonMissing, fmt.Sprintf(
		"Role %q and database %q cannot be deleted without Secret %s, which connectionSecretRef names: make it again, or set deletionPolicy to Retain to leave them and let this ExternalDatabase go.",
		db.Owner(), db.Spec.DatabaseName, key.Name), missingRecheck)
}
