package platform

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/kindtest"
)

func TestReconcileDeletesNothingForOutdatedSpec(t *testing.T) {
	for name, change := range map[string]func(fixture){
		"the spec has changed": func(f fixture) {
			f.Change(func(p *v1alpha1.Platform) { p.Spec.Components[0].ManagementState = v1alpha1.Managed })
		},
		"the Platform was replaced by another one of this name": func(f fixture) {
			other := f.Object()
			f.Remove(other)
			other.UID = "other-uid"
			f.Store(other)
		},
		"the Platform is being deleted": fixture.delete,
		"the Platform is to be deleted without its children": func(f fixture) {
			f.Change(func(p *v1alpha1.Platform) { p.Finalizers = append(p.Finalizers, metav1.FinalizerOrphanDependents) })
		},
		"the Platform is paused": func(f fixture) {
			f.Change(func(p *v1alpha1.Platform) { p.Annotations = map[string]string{controller.PausedAnnotation: "true"} })
		},
		"the Platform was deleted": func(f fixture) { f.Remove(f.Object()) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, example(removed(app("web")), removed(app("docs"))), namespace())
			f.addChild(app("web"), ready)
			f.addChild(app("docs"), ready)
			f.Observe()
			change(f)
			reads, r := f.platformReads(), f.ReconcileAsCached()
			controllertest.Equal(t, "writes", nil, r.Writes)
			controllertest.Equal(t, "reads", 1, f.platformReads()-reads)
			if r.Err == nil || !strings.HasSuffix(r.Err.Error(), "postponed by 1s") {
				t.Errorf("the reconcile returned %v", r.Err)
			}
		})
	}
}

func TestReconcileCreatesNoAtForOutdatedSpec(t *testing.T) {
	f := newFixture(t, example(at("job"), app("web")), namespace())
	f.Observe()
	f.Change(func(p *v1alpha1.Platform) { p.Spec.Components[1].App.Image = "web:2" })
	controllertest.Equal(t, "writes with an outdated cache", nil, f.ReconcileAsCached().Writes)
	r := f.Reconcile()
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	controllertest.Equal(t, "writes", []string{"create ats shops/shop-job", "create apps shops/shop-web", updateStatus},
		r.Writes)
}

// TestReconcileDoesNotRecreateAtDeletedMeanwhile has an At that a user deletes while the operator creates
// an App in the same reconcile. A new At would run its command again.
func TestReconcileDoesNotRecreateAtDeletedMeanwhile(t *testing.T) {
	f := newFixture(t, example(app("web"), at("job")), namespace())
	f.addChild(at("job"), ready)
	f.Observe()
	f.Windlass.PrependReactor("create", "apps", func(clienttesting.Action) (bool, runtime.Object, error) {
		f.Remove(kindtest.Get[*cnatv1.At](f.Cluster, "shops", "shop-job"))
		if err := f.Kinds.Cnat().V1().Ats().Informer().GetStore().Replace(nil, "999"); err != nil {
			t.Error(err)
		}
		return false, nil, nil
	})
	r := f.ReconcileAsCached()
	if r.Err == nil || !controller.Quiet(r.Err) {
		t.Errorf("the reconcile returned %v", r.Err)
	}
	controllertest.Equal(t, "writes", []string{"create apps shops/shop-web"}, r.Writes)
}

// TestReconcileCreatesNothingForDeletedPlatform has an outdated cache, as a process that has just started
// can have. Objects that this process creates could outlive the Platform.
func TestReconcileCreatesNothingForDeletedPlatform(t *testing.T) {
	for name, c := range map[string]struct {
		others []runtime.Object
		change func(*v1alpha1.Platform)
	}{
		"a reconciled Platform with a namespace gets no component": {
			others: []runtime.Object{namespace()}, change: hadNamespaceOf(""),
		},
		"a reconciled Platform without a namespace gets no namespace":           {change: hadNamespaceOf("")},
		"a Platform that was never reconciled gets no component in a namespace": {others: []runtime.Object{namespace()}},
		"a Platform that was never reconciled gets no namespace":                {},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, example(app("web"), database("db")), c.others...)
			if c.change != nil {
				f.Change(c.change)
			}
			f.Observe()
			f.Remove(f.Object())
			reads, r := f.platformReads(), f.ReconcileAsCached()
			writes := slices.DeleteFunc(r.Writes, func(write string) bool { return write == updateStatus })
			controllertest.Equal(t, "writes", nil, writes)
			if r.Err == nil {
				t.Error("the reconcile returned no error")
			}
			controllertest.Equal(t, "reads", 1, f.platformReads()-reads)
		})
	}
}

func TestReconcileConfirmsEachDeletion(t *testing.T) {
	f := newFixture(t, example(removed(app("web")), removed(app("docs"))), namespace())
	f.addChild(app("web"), ready)
	f.addChild(app("docs"), ready)
	if r := f.Reconcile(); r.Err != nil {
		t.Fatal(r.Err)
	}
	controllertest.Equal(t, "reads", 2, f.platformReads())
}

func TestReconcileConfirmsChangesOncePerSecond(t *testing.T) {
	f := newFixture(t, example(app("web"), app("docs"), app("new")), namespace())
	for _, name := range []v1alpha1.ComponentName{"web", "docs"} {
		f.addChild(v1alpha1.PlatformComponent{Name: name, App: &v1alpha1.AppSpec{Image: "old:1"}}, ready)
	}
	r := f.Reconcile()
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	controllertest.Equal(t, "writes", []string{
		"patch apps shops/shop-web", "patch apps shops/shop-docs", "create apps shops/shop-new", updateStatus,
	}, r.Writes)
	controllertest.Equal(t, "reads", 1, f.platformReads())
}

func TestReconcileDeletesChildOnceWhileCacheIsBehind(t *testing.T) {
	f := newFixture(t, example(removed(app("web"))), namespace())
	f.addChild(app("web"), ready)
	cached := f.app("web")
	for _, writes := range [][]string{{"delete apps shops/shop-web", updateStatus}, nil, nil} {
		f.Observe()
		controllertest.Load(t, f.Kinds.Windlass().V1alpha1().Apps().Informer().GetStore(), cached)
		r := f.ReconcileAsCached()
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		controllertest.Equal(t, "writes", writes, r.Writes)
		f.checkComponents(reported("web", "App", v1alpha1.Removed, "Removing", reasonRemoving))
	}
}

// TestComponentIsNotReadyIfUpdateFails has an App that depends on a Database. The Database is Ready in its previous
// state, and could not be updated to its desired state.
func TestComponentIsNotReadyIfUpdateFails(t *testing.T) {
	f := newFixture(t, example(app("web", "db"), database("db")), namespace())
	f.addChild(v1alpha1.PlatformComponent{Name: "db", Database: &v1alpha1.DatabaseSpec{Version: "16"}}, ready)
	f.Journal.FailNext("patch", "databases", apierrors.NewInternalError(fmt.Errorf("no")))
	controllertest.Equal(t, "writes", []string{"patch databases shops/shop-db", updateStatus}, f.Reconcile().Writes)
	controllertest.Equal(t, "ready", 0, f.Object().Status.ReadyComponents)
}

// TestReadyConditionOmitsPostponedRemoval has a component that fails, and a component whose removal is
// postponed.
func TestReadyConditionOmitsPostponedRemoval(t *testing.T) {
	for name, c := range map[string]struct {
		change func(fixture)
		stored bool
	}{
		"the cached spec is outdated, so that the API server rejects the status too": {
			change: func(f fixture) { f.Change(func(p *v1alpha1.Platform) { p.Spec.Components[1].App.Image = "docs:2" }) },
		},
		"the child was deleted meanwhile": {change: func(f fixture) { f.Remove(f.app("web")) }, stored: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, example(removed(app("web")), app("docs")), namespace())
			f.addChild(app("web"), ready)
			f.addChild(app("docs"), foreign)
			f.Observe()
			c.change(f)
			r := f.ReconcileAsCached()
			if r.Err == nil {
				t.Error("the reconcile returned no error")
			}
			sent, ok := f.Journal.Object(updateStatus).(*v1alpha1.Platform)
			if !ok {
				t.Fatalf("no status was sent; writes: %q", r.Writes)
			}
			text := strings.Join(controllertest.Conditions(sent), "\n")
			if strings.Contains(text, "postponed") || !strings.Contains(text, "Ready=False NameConflict: component docs: ") {
				t.Errorf("the conditions are:\n%s", text)
			}
			controllertest.Equal(t, "the status is stored", c.stored, f.Object().Status.ObservedGeneration > 0)
		})
	}
}

func TestComponentStaysManagedUntilReleaseSucceeds(t *testing.T) {
	f := newFixture(t, example(unmanaged(app("web"))), namespace())
	f.addChild(app("web"), ready)
	f.Journal.FailNext("patch", "apps", apierrors.NewForbidden(v1alpha1.Resource("apps"), "shop-web",
		fmt.Errorf("no permission")))
	f.Reconcile()
	f.checkComponents(reported("web", "App", v1alpha1.Managed, "Ready", reasonForbidden))
	controllertest.Equal(t, "writes before the retry", nil, f.Reconcile().Writes)
	f.Clock.Step(forbiddenRetry)
	controllertest.Equal(t, "writes of the retry", []string{
		"patch apps shops/shop-web", updateStatus,
	}, f.Reconcile().Writes)
	f.checkComponents(reported("web", "App", v1alpha1.Unmanaged, "Ready", "Available"))
}

func TestReleaseReportsDeletedChildAsAbsent(t *testing.T) {
	f := newFixture(t, example(unmanaged(app("web"))), namespace())
	f.addChild(app("web"), ready)
	f.Observe()
	f.Remove(f.app("web"))
	r := f.ReconcileAsCached()
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	controllertest.Equal(t, "writes", []string{"patch apps shops/shop-web", updateStatus}, r.Writes)
	f.checkComponents(reported("web", "App", v1alpha1.Unmanaged, "Absent", ""))
}

func TestFinalizeReportsDegradedComponent(t *testing.T) {
	f := newFixture(t, example(database("db")))
	f.addChild(database("db"), degraded, deleting)
	f.delete()
	f.Reconcile()
	f.checkCondition("Degraded=True ComponentDegraded: Components with a problem: db. Removing components: 1 left.")
}

// TestReconcileDelaysRetryOfRejectedDeletionsOfSameName has a component whose kind has changed.
func TestReconcileDelaysRetryOfRejectedDeletionsOfSameName(t *testing.T) {
	f := newFixture(t, example(removed(app("web"))), namespace())
	f.addChild(app("web"), ready)
	f.addChild(database("web"), ready)
	for _, resource := range []string{"apps", "databases"} {
		f.Journal.FailNext("delete", resource, apierrors.NewForbidden(v1alpha1.Resource(resource), "shop-web",
			fmt.Errorf("no permission")))
	}
	writes := []string{"delete apps shops/shop-web", "delete databases shops/shop-web", updateStatus}
	controllertest.Equal(t, "writes", writes, f.Reconcile().Writes)
	controllertest.Equal(t, "writes before the retry", nil, f.Reconcile().Writes)
	f.Clock.Step(forbiddenRetry)
	controllertest.Equal(t, "writes of the retry", writes, f.Reconcile().Writes)
}

func TestEmptyPlatformReportsTerminatingNamespace(t *testing.T) {
	f := newFixture(t, example(), terminatingNamespace())
	f.Reconcile()
	f.checkCondition("Progressing=True ComponentsNotReady: The Platform is not Ready.")
	f.checkCondition("Ready=False NamespaceTerminating")
}

func TestTerminatingNamespaceDoesNotDelayRetry(t *testing.T) {
	f := newFixture(t, example(app("web")), namespace())
	f.Journal.FailNext("create", "apps", terminating())
	f.Reconcile()
	controllertest.Equal(t, "writes of the retry", []string{
		"create apps shops/shop-web", updateStatus,
	}, f.Reconcile().Writes)
}
