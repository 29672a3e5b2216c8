package database

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/kindtest"
)

// TestServiceIsAdoptedWhenServerRuns checks that the clients of another server lose this server only when the server of
// the Database runs.
func TestServiceIsAdoptedWhenServerRuns(t *testing.T) {
	theirs := map[string]string{"app": "postgres"}
	db := example()
	f := newFixture(t, db, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: db.Namespace, Name: db.Name, UID: "theirs", ResourceVersion: "7",
			Annotations: map[string]string{"windlass.dev/adopt": "Database/" + db.Name},
		},
		Spec: corev1.ServiceSpec{Selector: theirs, Ports: []corev1.ServicePort{{Port: 5432}}},
	})
	selector := func() map[string]string {
		return kindtest.Get[*corev1.Service](f.Cluster, db.Namespace, db.Name).Spec.Selector
	}
	const waits = "Then the operator adopts Service"
	controllertest.ErrorContains(t, waits, f.Reconcile().Err)
	controllertest.ErrorContains(t, waits, f.Reconcile().Err)
	controllertest.Equal(t, "selector before the start", theirs, selector())
	f.start()
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	controllertest.Equal(t, "selector after the start", selectorOf(db), selector())
}
