package app

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

func TestReconcileRefusesSecretOfDatabaseOfAnotherKind(t *testing.T) {
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
		"the Secret of the Database that the App names":                   {"Database", owned(ours, "Database", "db"), ""},
		"the Secret of a Database, and the App names no kind":             {"", owned(ours, "Database", "db"), ""},
		"the Secret of the ExternalDatabase that the App names":           {"ExternalDatabase", owned(ours, "ExternalDatabase", "db"), ""},
		"the Secret of an ExternalDatabase, and the App names a Database": {"Database", owned(ours, "ExternalDatabase", "db"), "the Secret db-credentials belongs to ExternalDatabase db, but databaseRef names Database db; set databaseRef.kind to ExternalDatabase, or delete the ExternalDatabase"},
		"the Secret of a Database, and the App names an ExternalDatabase": {"ExternalDatabase", owned(ours, "Database", "db"), "the Secret db-credentials belongs to Database db, but databaseRef names ExternalDatabase db; set databaseRef.kind to Database, or delete the Database"},
		"a Secret without an owner":                                       {"Database", &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db-credentials"}}, ""},
		"a Secret of another operator":                                    {"Database", owned("external-secrets.io/v1", "ExternalSecret", "db"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, example(func(app *v1alpha1.App) { app.Spec.DatabaseRef = &v1alpha1.DatabaseReference{Kind: c.kind, Name: "db"} }), c.secret)
			controllertest.ErrorContains(t, c.want, f.Reconcile().Err)
		})
	}
}
