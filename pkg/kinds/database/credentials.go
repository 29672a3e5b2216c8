package database

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/kinds/internal/credentials"
	"windlass.dev/windlass/pkg/postgresql"
)

// hostOf returns the name of the server for clients.
func hostOf(db *v1alpha1.Database) string { return db.Name + "." + db.Namespace + ".svc" }

// desiredSecret returns the connection Secret with a login and its password.
func desiredSecret(db *v1alpha1.Database, e encryption, of login, record credentials.Record) *corev1.Secret {
	meta := metaOf(db)
	meta.Name = credentials.Name(db.Name)
	secret := credentials.Secret(meta, e.settings(postgresql.Settings{
		Username: of.name, Password: of.password, Host: hostOf(db), Port: port, Database: db.Spec.DatabaseName,
	}))
	credentials.SetRecord(secret, record)
	return secret
}

// newSecret returns the connection Secret of a Database that has none, with a new password for the login that the
// status names. An existing Secret keeps its login and password: see declareChildren.
func newSecret(db *v1alpha1.Database, e encryption) *corev1.Secret {
	next := login{name: credentials.Recorded(db.Spec.Owner, db.Status.Credentials), password: credentials.NewPassword()}
	return desiredSecret(db, e, next, credentials.NewRecord(db.Status.Credentials, credentials.ScheduleOf(db)))
}

// checkPassword returns a Stalled error for a password with a control character. The script in the Pod does not
// set such a password on the server.
func checkPassword(s *corev1.Secret) error {
	if !slices.ContainsFunc(s.Data[credentials.KeyPassword], func(c byte) bool { return c < ' ' || c == 0x7f }) {
		return nil
	}
	return controller.Stalled(messageInvalidPassword.Error(s.Name), 0)
}
