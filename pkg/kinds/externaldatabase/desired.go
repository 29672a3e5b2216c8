package externaldatabase

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/kinds/internal/credentials"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
	"windlass.dev/windlass/pkg/postgresql"
)

// desiredSecret returns the Secret of the owner, with the host, port, sslmode and ca of admin. An existing Secret keeps
// its login and password except in a rotation: see credentials.Keep.
func desiredSecret(
	db *v1alpha1.ExternalDatabase, admin postgresql.Settings, login generation, record credentials.Record,
) *corev1.Secret {
	labels := map[string]string{
		"app.kubernetes.io/name": "externaldatabase", "app.kubernetes.io/instance": instance(db.Name),
	}
	pods.CopyPlatformLabels(labels, db)
	client := admin
	client.Username, client.Password, client.Database = login.name, login.password, db.Spec.DatabaseName
	meta := metav1.ObjectMeta{Namespace: db.Namespace, Name: credentials.Name(db.Name), Labels: labels}
	secret := credentials.Secret(meta, client)
	credentials.SetRecord(secret, record)
	return secret
}

// newSecret returns a Secret for an ExternalDatabase that has none. It has a new password for the login that the status
// names, and counts a request for a rotation as carried out.
func newSecret(db *v1alpha1.ExternalDatabase, admin postgresql.Settings) *corev1.Secret {
	record := credentials.NewRecord(db.Status.Credentials, credentials.ScheduleOf(db))
	return desiredSecret(db, admin, generation{recordedLogin(db), credentials.NewPassword()}, record)
}

// recordedLogin returns the login in the status or, if the status has none, the owner.
func recordedLogin(db *v1alpha1.ExternalDatabase) string {
	return credentials.Recorded(db.Owner(), db.Status.Credentials)
}

// maxLabel limits the value of a label, in bytes.
const maxLabel = 63

// instance returns a name as the value of a label, or "" if the name is longer than maxLabel.
func instance(name string) string {
	if len(name) > maxLabel {
		return ""
	}
	return name
}

// desiredDatabase returns the desired state of the roles and the database.
func desiredDatabase(db *v1alpha1.ExternalDatabase, login generation) postgresql.Want {
	want := postgresql.Want{
		Mark:     postgresql.Mark{Namespace: db.Namespace, Name: db.Name, UID: string(db.UID)},
		Database: db.Spec.DatabaseName, Owner: db.Owner(), Alternates: credentials.Alternates(db.Owner()),
		Login: login.name, Password: login.password,
		ID: postgresql.ID(db.Status.ExternalID),
	}
	for _, name := range db.Spec.Extensions {
		want.Extensions = append(want.Extensions, string(name))
	}
	return want
}

// checkPassword returns a Stalled error for a password with a character that is not printable ASCII. Clients may
// normalize such a character in different ways before they send the password.
func checkPassword(s *corev1.Secret) error {
	if !slices.ContainsFunc(s.Data[credentials.KeyPassword], func(c byte) bool { return c < ' ' || c > '~' }) {
		return nil
	}
	return controller.Stalled(messageInvalidPassword.Error(s.Name), 0)
}
