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

func TestServerThatWasNeverUsedIsRetriedSooner(t *testing.T) {
	c := kindtest.NewCluster(t)
	r := &reconciler{clock: c.Clock, unavailable: controller.NewRejections[controller.Key](c.Clock)}
	err := postgresql.NewError(postgresql.Silent, "no response")
	var delays []time.Duration
	for range 4 {
		delays = append(delays, r.untilRetry(example(), err))
		c.Clock.Step(delays[len(delays)-1])
	}
	controllertest.Equal(t, "delays", []time.Duration{time.Second, time.Second, 2 * time.Second, 4 * time.Second}, delays)
	controllertest.Equal(t, "delay after the creation", 30*time.Second, r.untilRetry(example(known), err))
}

func TestDatabaseThatBecomesReadyWakesItsUsers(t *testing.T) {
	c := kindtest.NewCluster(t, example(func(db *v1alpha1.ExternalDatabase) {
		db.Spec.ConnectionSecretRef.Name = "main-credentials"
	}))
	referrers, err := newReferrers(c.Kinds.Windlass().V1alpha1().ExternalDatabases().Informer())
	if err != nil {
		t.Fatal(err)
	}
	c.Observe()
	host := &v1alpha1.Database{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "main"}}
	controllertest.Equal(t, "users of a Database that is not Ready", nil, usersOf(host, referrers))
	conditions.True(&host.Status.Conditions, conditions.Ready, "Available", "")
	controllertest.Equal(t, "users of a Database that is Ready", []controller.Key{{Namespace: "default", Name: "shop"}},
		usersOf(host, referrers))
	host.Namespace = "other"
	controllertest.Equal(t, "users of a Database in another namespace", []controller.Key{}, usersOf(host, referrers))
}
