package externaldatabase

import (
	"context"
	"fmt"
	"time"

	"k8s.io/klog/v2"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/postgresql"
)

// Reasons of conditions.
const (
	reasonMissing         = "DependencyMissing"
	reasonInvalidSecret   = "InvalidConnectionSecret"
	reasonInvalidPassword = "InvalidPassword"
	reasonPasswordChanged = "PasswordChanged"
	reasonCreating        = "Creating"
	reasonGone            = "DatabaseGone"
	reasonAvailable       = "Available"
	reasonUnreachable     = "ServerUnreachable"
	reasonHostNotAllowed  = "HostNotAllowed"
	reasonNotTrusted      = "ServerNotTrusted"
	reasonLoginRefused    = "LoginRefused"
	reasonDenied          = "PermissionDenied"
	reasonNameConflict    = "NameConflict"
	reasonReplaced        = "ServerReplaced"
	reasonRejected        = "Rejected"
	reasonServerError     = "ServerError"
)

const (
	// creationDelay is the time between a status that announces a change of the server and the change.
	creationDelay = time.Second
	// awayRetry is how often a server that does not answer is retried.
	awayRetry = 30 * time.Second
	// conflictRetry is how often a name that is taken, or a database that is gone, is checked again.
	conflictRetry = 30 * time.Second
	// configurationRetry is how often a server that refuses a login or a statement is retried: changes
	// on the server cause no event.
	configurationRetry = 5 * time.Minute
)

// explain maps an error of a server to an error of the engine, and adds what to do about it. The message
// names the connection Secret but nothing of its content, because users who can read the object may not
// be allowed to read Secrets. The response of a server that is not PostgreSQL is only in the log, at
// --v=2.
func explain(ctx context.Context, db *v1alpha1.ExternalDatabase, err error) error {
	if detail := postgresql.Detail(err); detail != "" {
		klog.FromContext(ctx).V(2).Info("A PostgreSQL server gave an error", "secret", connectionKey(db), "error", err.Error(), "detail", detail)
	}
	stalled := func(reason, hint string, retry time.Duration) error {
		return controller.Stalled(controller.WithReason(reason, fmt.Errorf("%w; %s", err, hint)), retry)
	}
	secret := "Secret " + db.Spec.ConnectionSecretRef.Name
	switch postgresql.ClassOf(err) {
	case postgresql.Busy:
		return controller.Postpone(postgresql.RetryAfter(err))
	case postgresql.Silent:
		return controller.WaitFor(reasonUnreachable, fmt.Sprintf("Connecting by %s: %v. Check host, port and sslmode in it, and whether the operator reaches the server; it is tried again every %s.", secret, err, awayRetry), awayRetry)
	case postgresql.Away:
		return controller.WaitFor(reasonUnreachable, fmt.Sprintf("The server of %s: %v; it is tried again every %s.", secret, err, awayRetry), awayRetry)
	case postgresql.Forbidden:
		return stalled(reasonHostNotAllowed, "have the operator's administrator allow it, or change "+secret, configurationRetry)
	case postgresql.Untrusted:
		return stalled(reasonNotTrusted, "set ca in "+secret+" to the certificate of the server's authority, or sslmode to what the server has", configurationRetry)
	case postgresql.Refused:
		return stalled(reasonLoginRefused, "see username and password in "+secret+", and the server's pg_hba.conf", configurationRetry)
	case postgresql.Denied:
		return stalled(reasonDenied, "the role in "+secret+" needs CREATEROLE and CREATEDB; from PostgreSQL 16 on also ADMIN OPTION on roles that another has made; and to end sessions of others, pg_signal_backend", configurationRetry)
	case postgresql.Taken:
		return stalled(reasonNameConflict, "give this ExternalDatabase other names or, to hand over what is there, have the server's administrator run: "+handOver(db), conflictRetry)
	case postgresql.Replaced:
		return stalled(reasonReplaced, "see whether "+secret+" leads to the right server; to begin anew, set deletionPolicy to Retain, and make this ExternalDatabase anew", configurationRetry)
	case postgresql.Rejected:
		return stalled(reasonRejected, "change the spec, "+secret+" or the server", configurationRetry)
	}
	return controller.WithReason(reasonServerError, fmt.Errorf("the server of %s: %w", secret, err))
}

// recreateAnnotation requests a new, empty database in place of a database that is gone. Its value is the
// status.externalID of the former database, so that it has an effect only once.
const recreateAnnotation = "windlass.dev/recreate"

// gone returns the error for a database that has disappeared. Only a user can decide to replace it with
// an empty database. After that decision, the former identity is removed from the status before a new
// database is created.
func gone(db *v1alpha1.ExternalDatabase) error {
	id := db.Status.ExternalID
	if db.Annotations[recreateAnnotation] == id {
		db.Status.ExternalID = ""
		return controller.WaitFor(reasonCreating, fmt.Sprintf("Database %q is about to be made anew, and empty, since annotation %s says so.", db.Spec.DatabaseName, recreateAnnotation), creationDelay)
	}
	return controller.Stalled(controller.WithReason(reasonGone, fmt.Errorf(
		"database %q, which was there as %s, is not on the server of Secret %s any more; restore it under its name or, for a new, empty one, set the annotation %s=%s on this ExternalDatabase, or delete the ExternalDatabase",
		db.Spec.DatabaseName, id, db.Spec.ConnectionSecretRef.Name, recreateAnnotation, id)), conflictRetry)
}

// handOver returns the SQL that hands an existing role and database over to db.
func handOver(db *v1alpha1.ExternalDatabase) string {
	want := desiredDatabase(db, "")
	return postgresql.HandOver(want)
}

// setBlocked sets the status after a reconcile that failed or waits.
func setBlocked(db *v1alpha1.ExternalDatabase, err error) {
	db.Status.Phase = v1alpha1.ExternalDatabasePending
	if controller.Degrades(err) {
		db.Status.Phase = v1alpha1.ExternalDatabaseFailed
	}
	controller.Blocked(err).SetOn(db)
}

func setReady(db *v1alpha1.ExternalDatabase) {
	const message = "The owner can connect to the database with what the Secret says."
	db.Status.Phase = v1alpha1.ExternalDatabaseReady
	controller.Summary{State: controller.StateReady, Note: controller.Note{Reason: reasonAvailable, Message: message}}.SetOn(db)
}
