package platform

import (
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/conditions"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

// TestStalled checks when a Platform is Stalled, because a user has to change something, and when it is
// only Degraded, because other components make progress.
func TestStalled(t *testing.T) {
	type spec = []v1alpha1.PlatformComponent
	for name, c := range map[string]struct {
		spec              spec
		children          []child
		degraded, stalled bool
	}{
		"a new component makes progress":         {spec: spec{app("web")}},
		"a child is Degraded and makes progress": {spec{app("web")}, []child{{app("web"), degraded}}, true, false},
		"a child is Stalled":                     {spec{app("web")}, []child{{app("web"), stalled}}, true, true},
		"a child is Stalled beside a new component": {
			spec{app("web"), app("docs")}, []child{{app("web"), stalled}}, true, false,
		},
		"a child is Stalled and another component depends on it": {
			spec{app("web"), app("docs", "web")}, []child{{app("web"), stalled}}, true, true,
		},
		"the status of a child is outdated": {spec{app("web")}, []child{{app("web"), outdated}}, false, false},
		"the child of an Unmanaged component is Stalled": {
			spec{unmanaged(app("web"))}, []child{{app("web"), stalled}}, false, false,
		},
		"an object of a user has the name of a child": {spec{app("web")}, []child{{app("web"), foreign}}, true, true},
		"an object of a user has the name of a child beside a new component": {
			spec{app("web"), app("docs")}, []child{{app("web"), foreign}}, true, false,
		},
		"a component depends on a Removed component": {spec{app("web", "db"), removed(database("db"))}, nil, true, true},
		"a component depends on a component that is being deleted": {
			spec{app("web", "db"), removed(database("db"))}, []child{{database("db"), deleting}}, false, false,
		},
		"a Managed child depends on a Removed component": {
			spec{app("web", "db"), removed(database("db"))}, []child{
				{database("db"), ready}, {app("web", "db"), ready},
			}, true, true,
		},
		"a component depends on an Unmanaged component without an object": {
			spec{app("web", "db"), unmanaged(database("db"))}, nil, false, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, example(c.spec...), namespace())
			for _, existing := range c.children {
				f.addChild(existing.component, existing.state)
			}
			f.Reconcile()
			status := f.Object().Status
			controllertest.Equal(t, "Degraded", c.degraded, conditions.IsTrue(status.Conditions, conditions.Degraded))
			controllertest.Equal(t, "Stalled", c.stalled, conditions.IsTrue(status.Conditions, conditions.Stalled))
			if c.stalled && conditions.IsTrue(status.Conditions, conditions.Progressing) {
				t.Error("the Platform is Stalled and Progressing")
			}
			controllertest.Equal(t, "the phase is Failed", c.degraded, status.Phase == v1alpha1.PlatformFailed)
		})
	}
}

func TestReconcileDelaysRetryOfRejectedCreation(t *testing.T) {
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "App"}, "shop-web", nil)
	forbidden := apierrors.NewForbidden(v1alpha1.Resource("apps"), "shop-web", fmt.Errorf("no permission"))
	for name, c := range map[string]struct {
		err    error
		after  time.Duration
		change func(*v1alpha1.Platform)
		retry  bool
	}{
		"a forbidden creation is not retried at once":      {err: forbidden},
		"an invalid child is not retried after a minute":   {err: invalid, after: time.Minute},
		"an invalid child is retried after 6 minutes":      {err: invalid, after: 6 * time.Minute, retry: true},
		"a forbidden creation is retried after 31 seconds": {err: forbidden, after: 31 * time.Second, retry: true},
		"an invalid child is retried if the spec changes": {
			err: invalid, change: func(p *v1alpha1.Platform) { p.Spec.Components[0].App.Image = "web:2" }, retry: true,
		},
		"an internal error of the API server is retried": {err: apierrors.NewInternalError(fmt.Errorf("no")), retry: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, example(app("web")), namespace())
			f.Journal.FailNext("create", "apps", c.err)
			first := f.Reconcile()
			f.Clock.Step(c.after)
			if c.change != nil {
				f.Change(c.change)
			}
			r := f.Reconcile()
			if c.retry {
				controllertest.Equal(t, "writes", []string{"create apps shops/shop-web", updateStatus}, r.Writes)
				controllertest.ErrorContains(t, "", r.Err)
				return
			}
			controllertest.Equal(t, "writes", nil, r.Writes)
			if r.Err == nil || first.Err == nil || r.Err.Error() != first.Err.Error() {
				t.Errorf("the first reconcile returned %v, and the second one %v", first.Err, r.Err)
			}
		})
	}
}

func TestStatusListsAllComponentsOfInvalidSpec(t *testing.T) {
	f := newFixture(t, example(app("a", "b"), app("b", "a"), app("c"), removed(app("d")), unmanaged(app("e")),
		removed(app("f"))), namespace())
	for name, state := range map[string]childState{"a": ready, "c": degraded, "e": released, "f": ready} {
		f.addChild(app(name), state)
	}
	controllertest.Equal(t, "writes", []string{updateStatus}, f.Reconcile().Writes)
	f.checkComponents(
		reported("a", "App", v1alpha1.Managed, "Ready", "Available"),
		reported("b", "App", v1alpha1.Managed, "Waiting", reasonInvalid),
		reported("c", "App", v1alpha1.Managed, "Failed", "Unavailable"),
		reported("d", "App", v1alpha1.Removed, "Removed", ""),
		reported("e", "App", v1alpha1.Unmanaged, "Pending", "Unavailable"),
		reported("f", "App", v1alpha1.Removed, "Waiting", reasonInvalid),
	)
	status := f.Object().Status
	controllertest.Equal(t, "Managed and Ready components", []int32{3, 1}, []int32{
		status.ManagedComponents, status.ReadyComponents,
	})
}

func TestStatusTruncatesLongMessages(t *testing.T) {
	f := newFixture(t, example(app("a"), app("b"), app("c"), app("d"), app("e"), app("f"), app("g")), namespace())
	f.addChild(app("a"), func(child controller.Object) {
		conditions.Find(*child.StatusConditions(), conditions.Ready).Message = strings.Repeat("é", 5000)
	})
	f.Reconcile()
	message := f.Object().Status.Components[0].Message
	if len(message) > maxMessage || !strings.HasSuffix(message, "é...") {
		t.Errorf("the message has %d bytes: %s", len(message), message)
	}
	r := conditions.Find(f.Object().Status.Conditions, conditions.Ready)
	if r == nil || !strings.HasSuffix(r.Message, "; and 2 more.") {
		t.Errorf("Ready is %v", r)
	}
}

func TestFinalizeReleasesUnmanagedChildMissingFromCache(t *testing.T) {
	f := newFixture(t, example(unmanaged(app("web")), unmanaged(app("none"))))
	f.addChild(app("web"), ready)
	f.delete()
	f.Observe()
	if err := f.Kinds.Windlass().V1alpha1().Apps().Informer().GetStore().Replace(nil, "999"); err != nil {
		t.Fatal(err)
	}
	r := f.ReconcileAsCached()
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	controllertest.Equal(t, "writes", []string{"patch apps shops/shop-web", "patch platforms shop"}, r.Writes)
	controllertest.Equal(t, "owner references", nil, f.app("web").OwnerReferences)
}

func TestComponentWaitsWhileManyPreviousChildrenAreLeft(t *testing.T) {
	f := newFixture(t, example(app("web")), namespace())
	for i := range maxLeft + 1 {
		f.addChild(app(fmt.Sprintf("previous-%d", i)), ready)
	}
	f.Reconcile()
	web := f.Object().Status.Components[0]
	controllertest.Equal(t, "reason", "ReplacingComponent", web.Reason)
	controllertest.Equal(t, "message", "Waiting for the deletion of components that are no longer in the spec. More "+
		"than 64 of them are left.", web.Message)
}

func TestReconcileRejectsInvalidSpec(t *testing.T) {
	for name, c := range map[string]struct {
		spec  []v1alpha1.PlatformComponent
		ready string
	}{
		"components depend on each other in a cycle": {
			[]v1alpha1.PlatformComponent{app("a", "b"), app("b", "c"), app("c", "a")},
			"Ready=False DependencyCycle: Components depend on each other in a cycle: a -> b -> c -> a.",
		},
		"a component depends on a component not listed": {
			[]v1alpha1.PlatformComponent{app("a", "b")},
			`Ready=False InvalidSpec: Component "a" depends on "b", but this Platform has no such component.`,
		},
		"a component has no kind": {
			[]v1alpha1.PlatformComponent{{Name: "a"}},
			`Ready=False InvalidSpec: Component "a" has none of the fields app, database, externalDatabase and at`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, example(append(c.spec, app("fine"))...))
			r := f.Reconcile()
			controllertest.Equal(t, "writes", []string{updateStatus}, r.Writes)
			controllertest.Equal(t, "the error degrades the Platform", true, controller.Degrades(example(), r.Err))
			controllertest.Equal(t, "phase", v1alpha1.PlatformFailed, f.Object().Status.Phase)
			f.checkCondition(c.ready)
			f.checkCondition("Stalled=True")
		})
	}
}
