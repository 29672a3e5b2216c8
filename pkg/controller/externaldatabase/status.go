package externaldatabase

import (
	"fmt"
	"time"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/internal/conditions"
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
	// creationDelay is between the status that says what is to come and that.
	creationDelay = time.Second
	// awayRetry is when a server that does not answer is tried again.
	awayRetry = 30 * time.Second
	// busyRetry is when a server is tried again that somebody else is trying.
	busyRetry = time.Second
	// conflictRetry is when a name that is taken is looked at again.
	conflictRetry = 30 * time.Second
	// configurationRetry is when a server is asked again that refuses what it is asked:
	// what is changed there shows in no event.
	configurationRetry = 5 * time.Minute
)

// explain turns an error of a server into the engine's, with what to do about it.
func explain(db *v1alpha1.ExternalDatabase, err error) error {
	stalled := func(reason, hint string, retry time.Duration) error {
		return controller.Stalled(controller.WithReason(reason, fmt.Errorf("%w; %s", err, hint)), retry)
	}
	secret := "Secret " + db.Spec.ConnectionSecretRef.Name
	switch postgresql.ClassOf(err) {
	case postgresql.Busy:
		return controller.Postpone(busyRetry)
	case postgresql.Away:
		return controller.WaitFor(reasonUnreachable, fmt.Sprintf("%v; it is tried again every %s.", err, awayRetry), awayRetry)
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
	return controller.WithReason(reasonServerError, err)
}

// handOver is the SQL that makes role and database this ExternalDatabase's.
func handOver(db *v1alpha1.ExternalDatabase) string {
	want := desiredDatabase(db, "")
	return postgresql.HandOver(want)
}

// setBlocked is for a pass that could not do all.
func setBlocked(db *v1alpha1.ExternalDatabase, err error) {
	db.Status.Phase = v1alpha1.ExternalDatabasePending
	if controller.Degrades(err) {
		db.Status.Phase = v1alpha1.ExternalDatabaseFailed
	}
	conditions.True(&db.Status.Conditions, conditions.Progressing, controller.ReasonOf(err), err.Error())
}

func setReady(db *v1alpha1.ExternalDatabase) {
	const message = "The owner can connect to the database with what the Secret says."
	db.Status.Phase = v1alpha1.ExternalDatabaseReady
	conditions.True(&db.Status.Conditions, conditions.Ready, reasonAvailable, message)
	conditions.False(&db.Status.Conditions, conditions.Progressing, reasonAvailable, message)
}
