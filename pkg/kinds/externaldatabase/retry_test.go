package externaldatabase

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/conditions"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/kindtest"
	"windlass.dev/windlass/pkg/postgresql"
)

// retries reconciles an ExternalDatabase whose server does not respond, each time when the reconcile is due, and returns
// the delays.
func retries(t *testing.T, db *v1alpha1.ExternalDatabase, n int) (delays []time.Duration) {
	t.Helper()
	r := &reconciler{}
	c := kindtest.NewCluster(t)
	r.clock, r.refusals = c.Clock, controller.NewRefusals[controller.Key](c.Clock)
	for range n {
		delay := r.untilRetry(db, postgresql.NewError(postgresql.Silent, "no response"))
		delays = append(delays, delay)
		c.Clock.Step(delay)
	}
	return delays
}

func TestServerThatWasNeverUsedIsRetriedSoon(t *testing.T) {
	controllertest.Equal(t, "delays", []time.Duration{
		time.Second, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 30 * time.Second, 30 * time.Second,
	}, retries(t, example(), 8))
}

func TestServerThatWasUsedIsRetriedRarely(t *testing.T) {
	controllertest.Equal(t, "delays", []time.Duration{30 * time.Second, 30 * time.Second}, retries(t, example(known), 2))
}

func TestDatabaseThatBecomesReadyWakesItsUsers(t *testing.T) {
	c := kindtest.NewCluster(t, example(func(db *v1alpha1.ExternalDatabase) { db.Spec.ConnectionSecretRef.Name = "main-credentials" }))
	referrers, err := newReferrers(c.Own.Windlass().V1alpha1().ExternalDatabases().Informer())
	if err != nil {
		t.Fatal(err)
	}
	c.Observe()
	host := &v1alpha1.Database{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "main"}}
	controllertest.Equal(t, "users of a Database that is not Ready", nil, usersOf(host, referrers))
	conditions.True(&host.Status.Conditions, conditions.Ready, "Available", "")
	controllertest.Equal(t, "users of a Database that is Ready", []controller.Key{{Namespace: "default", Name: "shop"}}, usersOf(host, referrers))
	host.Namespace = "other"
	controllertest.Equal(t, "users of a Database in another namespace", []controller.Key{}, usersOf(host, referrers))
}
