package children_test

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

// onlyShip is a lister of one ship.
type onlyShip struct{ ship *ship }

func (o onlyShip) Get(string) (*ship, error) { return o.ship, nil }

// TestFailedWriteCountsAgainstWriteBudget reconciles a ship while each write of its child fails with a conflict, so
// that no status is written.
func TestFailedWriteCountsAgainstWriteBudget(t *testing.T) {
	for verb, c := range map[string]struct{ exists, desired bool }{
		"create": {false, true}, "patch": {true, true}, "delete": {true, false},
	} {
		t.Run(verb, func(t *testing.T) {
			kube, requests := fake.NewClientset(), 0
			kube.PrependReactor(verb, "deployments", func(clienttesting.Action) (bool, runtime.Object, error) {
				requests++
				return true, nil, apierrors.NewConflict(appsv1.Resource("deployments"), "boat", nil)
			})
			deployments := deploymentsOf(kube)
			if c.exists {
				desired := unnamed(voyage{})
				desired.Namespace, desired.Name = "port", "boat"
				controllertest.Load(t, deployments.Informer.GetStore(), madeOf(t, desired, unlabelled))
			}
			child := children.Owns(deployments, unnamed)
			child.When = func(voyage) bool { return c.desired }
			kind := ships(child)
			kind.Lister = func(string) controller.Lister[*ship] { return onlyShip{owner().Object.(*ship)} }
			declared, err := kind.Declare()
			if err != nil {
				t.Fatal(err)
			}
			pipeline := declared.Pipeline(controller.Runtime{
				Events: controller.DiscardEvents{}, Clock: clocktesting.NewFakeClock(time.Unix(1, 0)),
			})
			for range 300 {
				_, _ = pipeline.Sync(t.Context(), controller.Key{Namespace: "port", Name: "boat"})
			}
			controllertest.Equal(t, "requests", 250, requests)
		})
	}
}
