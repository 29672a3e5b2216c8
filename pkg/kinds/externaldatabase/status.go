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
	// awayRetry is how often the operator retries a server that does not respond or is not available. soonRetry is the
	// first delay while the database does not exist yet: see untilRetry.
	awayRetry = 30 * time.Second
	soonRetry = time.Second
	// conflictRetry is how often the operator checks again whether a name is taken, or a database is missing.
	conflictRetry = 30 * time.Second
	// configurationRetry is how often the operator retries a refused login or statement, because changes on
	// the server cause no event.
	configurationRetry = 5 * time.Minute
)

// explain maps an error of a server to an error of the engine, and adds advice. The message names the
// connection Secret but nothing of its content, because users who can read the object may not be allowed to
// read Secrets. The details for the administrator of the operator (postgresql.Detail) are in the log, at
// --v=2.
func (r *reconciler) explain(ctx context.Context, db *v1alpha1.ExternalDatabase, err error) error {
	if detail := postgresql.Detail(err); detail != "" {
		klog.FromContext(ctx).V(2).Info("A request to a PostgreSQL server failed", "secret", connectionKey(db), "error", err.Error(), "detail", detail)
	}
	stalled := func(reason, hint string, retry time.Duration) error {
		return controller.Stalled(controller.WithReason(reason, fmt.Errorf("%w; %s", err, hint)), retry)
	}
	secret := "Secret " + db.Spec.ConnectionSecretRef.Name
	switch postgresql.ClassOf(err) {
	case postgresql.Busy:
		return controller.Postpone(postgresql.RetryAfter(err))
	case postgresql.Silent:
		return controller.Warn(controller.WaitFor(reasonUnreachable, fmt.Sprintf("The connection to the server in %s failed: %v. Check host, port and sslmode in the Secret, and whether the operator can reach the server. The operator retries at least every %s.", secret, err, awayRetry), r.untilRetry(db, err)))
	case postgresql.Away:
		return controller.Warn(controller.WaitFor(reasonUnreachable, fmt.Sprintf("The server in %s cannot process requests of the operator now: %v. The operator retries at least every %s.", secret, err, awayRetry), r.untilRetry(db, err)))
	case postgresql.Forbidden:
		return stalled(reasonHostNotAllowed, fmt.Sprintf("ask the administrator of the operator to allow the host, or change %s", secret), configurationRetry)
	case postgresql.Untrusted:
		return stalled(reasonNotTrusted, fmt.Sprintf("in %s, set ca to the certificate of the authority that signed the certificate of the server, or sslmode to a mode that the server supports", secret), configurationRetry)
	case postgresql.Refused:
		return stalled(reasonLoginRefused, fmt.Sprintf("check username and password in %s, and pg_hba.conf on the server", secret), configurationRetry)
	case postgresql.Denied:
		return stalled(reasonDenied, fmt.Sprintf("set CREATEROLE and CREATEDB on the role in %s; to end sessions of other roles, grant it pg_signal_backend; from PostgreSQL 16 on, to manage a role that another role created, grant it this role WITH ADMIN OPTION", secret), configurationRetry)
	case postgresql.Uninherited:
		return stalled(reasonDenied, fmt.Sprintf("set INHERIT on the role in %s", secret), configurationRetry)
	case postgresql.Unlisted:
		return stalled(reasonDenied, "ask a superuser of the server to create the extension, or remove it from the spec", configurationRetry)
	case postgresql.Taken:
		return stalled(reasonNameConflict, fmt.Sprintf("create an ExternalDatabase with other names instead or, to hand over the existing role and database, ask the administrator of the server to run: %s", handOver(db)), conflictRetry)
	case postgresql.Replaced:
		return stalled(reasonReplaced, fmt.Sprintf("check whether %s names the right server; for a new database, set deletionPolicy to Retain, delete this ExternalDatabase and create it again", secret), configurationRetry)
	case postgresql.Rejected:
		return stalled(reasonRejected, fmt.Sprintf("change the spec, %s, or the configuration of the server", secret), configurationRetry)
	}
	return controller.WithReason(reasonServerError, fmt.Errorf("using the server in %s: %w", secret, err))
}

// untilRetry returns the delay before the operator retries a server after err. While the database does not exist yet,
// the server may be starting: the delay is then as long as the server has been unavailable, from soonRetry to awayRetry.
func (r *reconciler) untilRetry(db *v1alpha1.ExternalDatabase, err error) time.Duration {
	if db.Status.ExternalID != "" {
		return awayRetry
	}
	return r.refusals.Note(db.UID, "", connectionKey(db), err, soonRetry, awayRetry).Until.Sub(r.clock.Now())
}

// recreateAnnotation requests a new, empty database in place of a database that was not found. Its value is
// the status.externalID of the former database, so that the annotation has an effect only once.
const recreateAnnotation = "windlass.dev/recreate"

// gone returns the error for a database that existed before and was not found. Only a user can decide to
// replace the database with an empty database. After that decision, gone removes the former identity from
// the status, and the next reconcile creates a database.
func gone(db *v1alpha1.ExternalDatabase) error {
	id := db.Status.ExternalID
	if db.Annotations[recreateAnnotation] == id {
		db.Status.ExternalID, db.Status.ServerDatabase = "", ""
		return controller.WaitFor(reasonCreating, fmt.Sprintf("The operator is about to create a new, empty database %q, as annotation %s requests.", db.Spec.DatabaseName, recreateAnnotation), creationDelay)
	}
	return controller.Stalled(controller.WithReason(reasonGone, fmt.Errorf(
		"database %q (%s) was not found on the server in Secret %s; restore it under its name, or delete this ExternalDatabase; to create a new, empty database, set the annotation %s=%s on this ExternalDatabase",
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
