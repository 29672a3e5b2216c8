package children_test

import (
	"crypto/rand"
	"errors"
	"runtime"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"

	"windlass.dev/windlass/pkg/cache/budget"
	"windlass.dev/windlass/pkg/cache/lenient"
	"windlass.dev/windlass/pkg/cache/packed"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

// isExceeded reports whether an error says that a child exceeds the budget of its namespace.
func isExceeded(err error) bool {
	exceeded := (*packed.ExceededError)(nil)
	return errors.As(err, &exceeded) && controller.ReasonOf(err) == "NamespaceBudgetExceeded"
}

func TestEnsureReadsChildOverBudgetOnceThereIsRoom(t *testing.T) {
	limit, full := &budget.Budget{}, new(int)
	if !budget.Charge(limit, full, "port", "another", budget.Namespace) {
		t.Fatal("an empty budget has no room")
	}
	large := func(d *appsv1.Deployment) {
		d.OwnerReferences[0].APIVersion = "windlass.dev/v1alpha1" // children of this group are cached whole
		d.Annotations["example.com/noise"] = rand.Text()
		for len(d.Annotations["example.com/noise"]) < 2*budget.Small {
			d.Annotations["example.com/noise"] += rand.Text()
		}
	}
	live := made(t, large, image("iron:1"))
	cached, err := new(packed.Packers).Transform(limit, "windlass.dev")(live.DeepCopy())
	if err != nil {
		t.Fatal(err)
	}
	d := newDock(t, nil, []*appsv1.Deployment{live})
	if err := d.cache.Add(cached); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Ensure(t.Context(), owner(), want(), nil); !isExceeded(err) || len(d.kube.Actions()) > 0 {
		t.Errorf("without room the error is %v, and the requests are %v", err, d.kube.Actions())
	}
	for runtime.KeepAlive(full); !limit.Fits("port", types.UID("child-uid"), 4*budget.Small); {
		runtime.GC()
	}
	got, err := d.Ensure(t.Context(), owner(), want(), nil)
	if err != nil || got.Spec.Template.Spec.Containers[0].Image != "wood:1" {
		t.Errorf("with room it is %v (%v)", got.Spec, err)
	}
	controllertest.Equal(t, "reads and writes", 2, len(d.kube.Actions()))
	if again, err := d.Cache.Get("port", "boat"); err != nil || again.ResourceVersion != live.ResourceVersion {
		t.Errorf("it is cached as %v (%v)", again, err)
	}
}

func TestEnsureDoesNotOverwriteUnreadableCustomChild(t *testing.T) {
	live := madeCustom(t, image("iron:1"))
	if err := (lenient.Mark{Reason: lenient.ReasonTooLarge}).SetOn(live); err != nil {
		t.Fatal(err)
	}
	d := custom(t, live)
	if _, err := d.Ensure(t.Context(), owner(), want(), nil); controller.ReasonOf(err) != "TooLarge" ||
		len(d.kube.Actions()) > 0 {
		t.Errorf("the error is %v, and the requests are %v", err, d.kube.Actions())
	}
}
