package externaldatabase

import (
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/kinds/internal/credentials"
	"windlass.dev/windlass/pkg/postgresql"
)

// desiredSecret returns the Secret of the owner, with the host, port, sslmode and ca of admin. An existing
// Secret keeps its own password: see credentials.KeepPassword.
func desiredSecret(db *v1alpha1.ExternalDatabase, admin postgresql.Settings, password string) *corev1.Secret {
	labels := maps.Clone(db.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels["app.kubernetes.io/name"], labels["app.kubernetes.io/instance"] = "externaldatabase", instance(db.Name)
	meta := metav1.ObjectMeta{Namespace: db.Namespace, Name: credentials.Name(db.Name), Labels: labels}
	return credentials.Secret(meta, credentials.Connection{
		Username: db.Owner(), Host: admin.Host, Port: strconv.Itoa(int(admin.Port)), Database: db.Spec.DatabaseName,
		TLSMode: string(admin.Mode), CA: admin.CA,
	}, password)
}

// maxLabel limits the value of a label, in bytes.
const maxLabel = 63

// instance returns a name as the value of a label, or "" if it is too long.
func instance(name string) string {
	if len(name) > maxLabel {
		return ""
	}
	return name
}

// desiredDatabase returns the desired state of the role and the database.
func desiredDatabase(db *v1alpha1.ExternalDatabase, password string) postgresql.Want {
	want := postgresql.Want{
		Mark:     postgresql.Mark{Namespace: db.Namespace, Name: db.Name, UID: string(db.UID)},
		Database: db.Spec.DatabaseName, Owner: db.Owner(), Password: password,
		ID: postgresql.ID(db.Status.ExternalID),
	}
	for _, name := range db.Spec.Extensions {
		want.Extensions = append(want.Extensions, string(name))
	}
	return want
}

// checkPassword returns a Terminal error for a password with a character that is not printable ASCII,
// because clients may normalize it in different ways before they send the password.
func checkPassword(s *corev1.Secret) error {
	if !slices.ContainsFunc(s.Data[credentials.KeyPassword], func(c byte) bool { return c < ' ' || c > '~' }) {
		return nil
	}
	return controller.Terminal(messageInvalidPassword.Error(s.Name))
}
