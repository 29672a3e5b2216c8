package app

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

func TestTheSecretOfAnotherDatabaseIsNotTaken(t *testing.T) {
	yes := true
	owned := func(apiVersion, kind, name string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db-credentials", Labels: map[string]string{controller.ManagedByLabel: controller.ManagedByWindlass},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name, UID: "x", Controller: &yes}}}}
	}
	const ours = "windlass.dev/v1alpha1"
	for name, c := range map[string]struct {
		kind   string
		secret *corev1.Secret
		want   string
	}{
		"a Database's, for which it asks":                 {"Database", owned(ours, "Database", "db"), ""},
		"a Database's, without a kind":                    {"", owned(ours, "Database", "db"), ""},
		"an ExternalDatabase's, for which it asks":        {"ExternalDatabase", owned(ours, "ExternalDatabase", "db"), ""},
		"an ExternalDatabase's, though it asks for other": {"Database", owned(ours, "ExternalDatabase", "db"), "the Secret db-credentials belongs to ExternalDatabase db, but databaseRef names Database db; set databaseRef.kind to ExternalDatabase, or delete the ExternalDatabase"},
		"a Database's, though it asks for other":          {"ExternalDatabase", owned(ours, "Database", "db"), "the Secret db-credentials belongs to Database db, but databaseRef names ExternalDatabase db; set databaseRef.kind to Database, or delete the Database"},
		"one that nobody controls":                        {"Database", &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db-credentials"}}, ""},
		"one of another operator":                         {"Database", owned("external-secrets.io/v1", "ExternalSecret", "db"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, example(func(app *v1alpha1.App) { app.Spec.DatabaseRef = &v1alpha1.DatabaseReference{Kind: c.kind, Name: "db"} }), c.secret)
			_, err := w.pass()
			said := ""
			if err != nil {
				said = err.Error()
			}
			controllertest.Equal(t, "error", c.want, said)
		})
	}
}
