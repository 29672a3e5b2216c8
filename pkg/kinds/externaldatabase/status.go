package externaldatabase

import (
	"context"
	"slices"
	"strconv"
	"time"

	"k8s.io/klog/v2"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/kinds/internal/credentials"
	"windlass.dev/windlass/pkg/postgresql"
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
	// configurationRetry is how often the operator retries a rejected login or statement, because changes on the server
	// cause no event.
	configurationRetry = 5 * time.Minute
)

// stalls has the messages about errors that last until a user changes the Secret, the spec or the server.
var stalls = map[postgresql.Class]*controller.Message{
	postgresql.Forbidden:     messageForbidden,
	postgresql.Untrusted:     messageUntrusted,
	postgresql.Unverified:    messageUnverified,
	postgresql.LoginRejected: messageLoginRejected,
	postgresql.Denied:        messageDenied,
	postgresql.Uninherited:   messageUninherited,
	postgresql.Replaced:      messageReplaced,
	postgresql.Rejected:      messageRejected,
}

// explain converts an error of a server to an error of the engine, and adds advice. The message names the connection
// Secret but none of its values, because users who can read the object may not be allowed to read Secrets. explain logs
// the details for the administrator of the operator (postgresql.Detail) at --v=2.
func (r *reconciler) explain(ctx context.Context, db *v1alpha1.ExternalDatabase, err error) error {
	if detail := postgresql.Detail(err); detail != "" {
		klog.FromContext(ctx).V(2).Info("A request to a PostgreSQL server failed", "secret", connectionKey(db), "error",
			err.Error(), "detail", detail)
	}
	secret, class := "Secret "+db.Spec.ConnectionSecretRef.Name, postgresql.ClassOf(err)
	if class == postgresql.Denied {
		if name := r.lacksAttributes(db); name != "" {
			return controller.Stalled(messageOwnerAttributes.Error(err, name), configurationRetry)
		}
	}
	if m := stalls[class]; m != nil {
		return controller.Stalled(m.Error(err, secret), configurationRetry)
	}
	switch class {
	case postgresql.Busy:
		return controller.Postpone(postgresql.RetryAfter(err))
	case postgresql.Silent:
		return controller.Warn(messageSilent.Wait(r.untilRetry(db, err), secret, err, awayRetry))
	case postgresql.Away:
		return controller.Warn(messageAway.Wait(r.untilRetry(db, err), secret, err, awayRetry))
	case postgresql.Unlisted:
		return controller.Stalled(messageUnlisted.Error(err), configurationRetry)
	case postgresql.Taken:
		if statements := postgresql.ConflictOf(err).Statements; statements != "" {
			return controller.Stalled(messageHandOver.Error(err, otherNames(err), statements), conflictRetry)
		}
		return controller.Stalled(messageTaken.Error(err, otherNames(err)), conflictRetry)
	case postgresql.Protected:
		if remedy := postgresql.ConflictOf(err).Remedy; remedy != "" {
			return controller.Stalled(messageProtectedOwn.Error(err, remedy), configurationRetry)
		}
		return controller.Stalled(messageProtected.Error(err, otherNames(err)), conflictRetry)
	case postgresql.Kept:
		return controller.Stalled(kept(db, err), conflictRetry)
	}
	return messageServerError.Error(secret, err)
}

// lacksAttributes returns the name of the Database that controls the connection Secret if its spec does not give its
// owner the attributes of an administrator, or "".
func (r *reconciler) lacksAttributes(db *v1alpha1.ExternalDatabase) string {
	name := r.databaseOf(connectionKey(db))
	database, err := r.databases.Databases(db.Namespace).Get(name)
	if err != nil {
		return ""
	}
	has := database.Spec.OwnerAttributes
	if slices.Contains(has, v1alpha1.OwnerCreateDB) && slices.Contains(has, v1alpha1.OwnerCreateRole) {
		return ""
	}
	return name
}

// untilRetry returns the delay before the operator retries a server after err. While the database does not exist yet,
// the server may be starting, so the delay is as long as the server has been unavailable, from soonRetry to awayRetry.
func (r *reconciler) untilRetry(db *v1alpha1.ExternalDatabase, err error) time.Duration {
	if db.Status.ExternalID != "" {
		return awayRetry
	}
	return r.unavailable.Note(db.UID, "", connectionKey(db), err, soonRetry, awayRetry).Until.Sub(r.clock.Now())
}

// recreateAnnotation requests a new, empty database in place of a database that was not found. Its value is the
// status.externalID of the missing database, so that the annotation has an effect only once.
const recreateAnnotation = "windlass.dev/recreate"

// gone returns the error for a database that existed before and was not found. Only a user can decide to replace the
// database with an empty database. If a user has requested this with recreateAnnotation, gone removes the identity of
// the missing database from the status, and the next reconcile creates a database.
func gone(db *v1alpha1.ExternalDatabase) error {
	id := db.Status.ExternalID
	if db.Annotations[recreateAnnotation] == id {
		db.Status.ExternalID, db.Status.ServerDatabase = "", ""
		return messageRecreating.Wait(creationDelay, strconv.Quote(db.Spec.DatabaseName), recreateAnnotation)
	}
	return controller.Stalled(messageGone.Error(strconv.Quote(db.Spec.DatabaseName), id,
		db.Spec.ConnectionSecretRef.Name, recreateAnnotation), conflictRetry)
}

// kept returns the error for a role that was handed over and cannot log in with the password in its Secret.
func kept(db *v1alpha1.ExternalDatabase, err error) error {
	advice := []any{err, db.Namespace, db.Name, credentials.RotateAnnotation, nextRequest(db), strconv.Quote(db.Owner())}
	if remedy := postgresql.ConflictOf(err).Remedy; remedy != "" {
		return messageKeptOut.Error(append(advice, remedy, credentials.Name(db.Name))...)
	}
	return messageKept.Error(append(advice, credentials.Name(db.Name))...)
}

// otherNames says which fields of another ExternalDatabase must differ to avoid a conflict.
func otherNames(err error) string {
	conflict := postgresql.ConflictOf(err)
	switch {
	case conflict.Role && conflict.Database:
		return "another spec.owner and another spec.databaseName"
	case conflict.Database && conflict.DatabaseOwner != "":
		return "another spec.databaseName, or with spec.owner: " + strconv.Quote(conflict.DatabaseOwner)
	case conflict.Database:
		return "another spec.databaseName"
	}
	return "another spec.owner"
}

// advised returns the text of an error of a rotation. If the error has a remedy, the text includes the remedy.
func advised(err error) string {
	if remedy := postgresql.ConflictOf(err).Remedy; remedy != "" {
		return messageProtectedOwn.With(err, remedy)
	}
	return err.Error()
}

// nextRequest returns a value of the annotation that requests a rotation. The value differs from the current value.
func nextRequest(db *v1alpha1.ExternalDatabase) string {
	if db.Annotations[credentials.RotateAnnotation] == firstRequest {
		return firstRequest + "-again"
	}
	return firstRequest
}

const firstRequest = "handed-over"

// setBlocked sets the status after a reconcile that failed or waits.
func setBlocked(db *v1alpha1.ExternalDatabase, err error) {
	db.Status.Phase = v1alpha1.ExternalDatabasePending
	if controller.Degrades(db, err) {
		db.Status.Phase = v1alpha1.ExternalDatabaseFailed
	}
	controller.Blocked(err).SetOn(db)
}

func setReady(db *v1alpha1.ExternalDatabase) {
	db.Status.Phase = v1alpha1.ExternalDatabaseReady
	controller.Summary{State: controller.StateReady, Note: messageAvailable.Note()}.SetOn(db)
}
