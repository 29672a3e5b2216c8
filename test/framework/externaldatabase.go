package framework

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
)

// EverythingOfExternalDatabase returns a spec that uses every field of ExternalDatabase. It names
// the connection Secret "server"; ChangesOfExternalDatabase also names the Secret "other".
func EverythingOfExternalDatabase() v1alpha1.ExternalDatabaseSpec {
	return v1alpha1.ExternalDatabaseSpec{
		ConnectionSecretRef: v1alpha1.SecretReference{Name: "server"}, DatabaseName: "shop", Owner: "clerk",
		Extensions: []v1alpha1.ExtensionName{"pgcrypto"}, DeletionPolicy: v1alpha1.DeletionDelete,
		Credentials: &v1alpha1.CredentialsSpec{
			RotateEvery: &metav1.Duration{Duration: 720 * time.Hour}, GracePeriod: &metav1.Duration{Duration: time.Minute},
		},
		Metadata: everyMetadata(),
	}
}

// CreateExternalDatabase creates an ExternalDatabase.
func (w *Clients) CreateExternalDatabase(
	t *testing.T, namespace, name string, spec v1alpha1.ExternalDatabaseSpec,
) *v1alpha1.ExternalDatabase {
	t.Helper()
	db := &v1alpha1.ExternalDatabase{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, Labels: map[string]string{"team": "storefront"},
		}, Spec: spec,
	}
	db, err := w.Windlass.WindlassV1alpha1().ExternalDatabases(namespace).Create(t.Context(), db, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("creating ExternalDatabase %s/%s: %v", namespace, name, err)
	}
	return db
}

// UpdateExternalDatabase changes an ExternalDatabase, and returns the updated object.
func (w *Clients) UpdateExternalDatabase(
	t *testing.T, namespace, name string, change func(*v1alpha1.ExternalDatabase),
) *v1alpha1.ExternalDatabase {
	t.Helper()
	return update(t, w.Windlass.WindlassV1alpha1().ExternalDatabases(namespace), name, change)
}

// ExternalDatabaseWith waits until the status of an ExternalDatabase reflects its newest generation, and
// wanted returns true. It returns the ExternalDatabase. what describes the wanted state in the message of a failure.
func (w *Clients) ExternalDatabaseWith(
	t *testing.T, namespace, name, what string, wanted func(*v1alpha1.ExternalDatabase) bool,
) *v1alpha1.ExternalDatabase {
	t.Helper()
	return with(t, w.Windlass.WindlassV1alpha1().ExternalDatabases(namespace), name, what, wanted)
}

// ExternalDatabaseIn waits until an ExternalDatabase has the given phase for its newest generation.
func (w *Clients) ExternalDatabaseIn(
	t *testing.T, namespace, name string, phase v1alpha1.ExternalDatabasePhase,
) *v1alpha1.ExternalDatabase {
	t.Helper()
	return w.ExternalDatabaseWith(t, namespace, name, string(phase), func(db *v1alpha1.ExternalDatabase) bool {
		return db.Status.Phase == phase
	})
}

// ExternalDatabaseReason waits until the condition Ready of an ExternalDatabase has the given reason for the
// newest generation.
func (w *Clients) ExternalDatabaseReason(t *testing.T, namespace, name, reason string) *v1alpha1.ExternalDatabase {
	t.Helper()
	return w.ExternalDatabaseWith(t, namespace, name, reason, readyFor[*v1alpha1.ExternalDatabase](reason))
}
