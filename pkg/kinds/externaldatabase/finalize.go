package externaldatabase

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/kinds/internal/credentials"
	"windlass.dev/windlass/pkg/postgresql"
)

// Finalize deletes the role and the database if deletionPolicy is Delete. Garbage collection deletes the Secret.
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
	failed := func(err error) error {
		return fmt.Errorf("deleting role %q and database %q (to keep them, set deletionPolicy to Retain): %w",
			db.Owner(), db.Spec.DatabaseName, err)
	}
	admin, err := r.lastConnection(ctx, db)
	switch {
	case controller.ReasonOf(err) == reasonMissing:
		return err // the error names the role and the database
	case err != nil:
		return failed(err)
	}
	if err := r.vet(ctx, db, admin, ""); err != nil {
		return failed(err)
	}
	server := r.open(db.Namespace, admin)
	defer server.Close()
	if err := server.Delete(ctx, desiredDatabase(db, generation{name: recordedLogin(db)})); err != nil {
		return r.explain(ctx, db, failed(err))
	}
	return nil
}

// deletesData reports whether the role and the database may exist, and the operator must delete them.
//
// deletesData reads the ExternalDatabase and the owner's Secret from the API server, because an SQL statement can have
// no precondition on these objects.
func (r *reconciler) deletesData(ctx context.Context, db *v1alpha1.ExternalDatabase) (bool, error) {
	if !saysDelete(db) {
		return false, nil
	}
	live, err := r.live.ExternalDatabases(db.Namespace).Get(ctx, db.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, controller.ErrDeletionNotObserved
	}
	if err == nil && (live.UID != db.UID || !saysDelete(live)) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading ExternalDatabase %s/%s before its database is deleted: %w", db.Namespace,
			db.Name, err)
	}
	if goes, err := r.goesWithVolume(ctx, live); err != nil || goes {
		return false, err
	}
	owner := newScope(db).owner
	secret, found, err := r.secrets.Live(ctx, owner, credentials.Name(db.Name))
	switch {
	case err != nil:
		return false, err
	case !found:
		// The operator creates the Secret and records it in the status before it creates the role and the
		// database.
		return live.Status.ExternalID != "" || live.Status.Binding != nil, nil
	}
	return !owner.Orphaned(secret), nil
}

// saysDelete reports whether the spec and the finalizers of the ExternalDatabase let the operator delete the database.
// The ExternalDatabase has the finalizer orphan while its Secret is being orphaned. Afterwards, the Secret has no owner
// reference.
func saysDelete(db *v1alpha1.ExternalDatabase) bool {
	return db.Spec.DeletionPolicy == v1alpha1.DeletionDelete &&
		!slices.Contains(db.Finalizers, metav1.FinalizerOrphanDependents)
}

// lastConnection returns the settings in the connection Secret. If the Secret was deleted, lastConnection returns the
// settings that the operator last read from it, because the deletion of a namespace can delete the Secret first.
func (r *reconciler) lastConnection(ctx context.Context, db *v1alpha1.ExternalDatabase) (postgresql.Settings, error) {
	key := connectionKey(db)
	admin, err := r.connections.get(ctx, key)
	if err == nil || controller.ReasonOf(err) != reasonMissing {
		return admin, err
	}
	if last, ok := r.connections.last(key); ok && last.err == nil {
		return last.settings, nil
	}
	role, database := strconv.Quote(db.Owner()), strconv.Quote(db.Spec.DatabaseName)
	return admin, controller.Warn(messageMissingAtDeletion.Wait(missingRecheck, role, database, key.Name))
}
