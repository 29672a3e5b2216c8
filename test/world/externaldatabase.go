package world

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
)

// EverythingOfExternalDatabase is a spec that uses every field of ExternalDatabase. Its
// connection Secrets are called server and other.
func EverythingOfExternalDatabase() v1alpha1.ExternalDatabaseSpec {
	return v1alpha1.ExternalDatabaseSpec{
		ConnectionSecretRef: v1alpha1.SecretReference{Name: "server"}, DatabaseName: "shop", Owner: "clerk",
		Extensions: []v1alpha1.ExtensionName{"pgcrypto"}, DeletionPolicy: v1alpha1.DeletionDelete,
	}
}

// CreateExternalDatabase creates an ExternalDatabase.
func (w *World) CreateExternalDatabase(t *testing.T, namespace, name string, spec v1alpha1.ExternalDatabaseSpec) *v1alpha1.ExternalDatabase {
	t.Helper()
	db := &v1alpha1.ExternalDatabase{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"team": "storefront"}}, Spec: spec}
	db, err := w.Windlass.WindlassV1alpha1().ExternalDatabases(namespace).Create(t.Context(), db, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("creating ExternalDatabase %s/%s: %v", namespace, name, err)
	}
	return db
}

// UpdateExternalDatabase changes an ExternalDatabase, and returns it as it is then.
func (w *World) UpdateExternalDatabase(t *testing.T, namespace, name string, change func(*v1alpha1.ExternalDatabase)) *v1alpha1.ExternalDatabase {
	t.Helper()
	return update(t, w.Windlass.WindlassV1alpha1().ExternalDatabases(namespace), name, change)
}

// ExternalDatabaseWith waits until the status of an ExternalDatabase's newest generation
// is as wanted.
func (w *World) ExternalDatabaseWith(t *testing.T, namespace, name, what string, wanted func(*v1alpha1.ExternalDatabase) bool) *v1alpha1.ExternalDatabase {
	t.Helper()
	return with(t, w.Windlass.WindlassV1alpha1().ExternalDatabases(namespace), name, what, wanted)
}

// ExternalDatabaseIn waits for a phase of the newest generation.
func (w *World) ExternalDatabaseIn(t *testing.T, namespace, name string, phase v1alpha1.ExternalDatabasePhase) *v1alpha1.ExternalDatabase {
	t.Helper()
	return w.ExternalDatabaseWith(t, namespace, name, string(phase), func(db *v1alpha1.ExternalDatabase) bool { return db.Status.Phase == phase })
}

// ExternalDatabaseReason waits until the newest generation's condition Ready has a
// reason.
func (w *World) ExternalDatabaseReason(t *testing.T, namespace, name, reason string) *v1alpha1.ExternalDatabase {
	t.Helper()
	return w.ExternalDatabaseWith(t, namespace, name, reason, readyFor[*v1alpha1.ExternalDatabase](reason))
}
