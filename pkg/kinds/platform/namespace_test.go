package platform

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

// hadNamespaceOf returns a change to the status that a Platform has after it was reconciled. uid is the
// UID of the namespace in the status, or empty if there was no namespace.
func hadNamespaceOf(uid types.UID) func(*v1alpha1.Platform) {
	return func(p *v1alpha1.Platform) {
		p.Status.ObservedGeneration, p.Status.NamespaceUID = p.Generation, &uid
	}
}

func TestReconcileNamespace(t *testing.T) {
	create := []string{"create namespaces shops", "create apps shops/shop-web", updateStatus}
	created := []v1alpha1.PlatformComponentStatus{reported("web", "App", v1alpha1.Managed, "Pending", reasonNew)}
	waiting := []v1alpha1.PlatformComponentStatus{reported("web", "App", v1alpha1.Managed, "Waiting", reasonNamespace)}
	for name, c := range map[string]struct {
		// cached is the namespace in the cache. uncached is a namespace that only the API server has.
		cached, uncached *corev1.Namespace
		// before and since change the Platform before and after the cache has observed it.
		before, since func(*v1alpha1.Platform)
		err           error
		writes        []string
		status        []v1alpha1.PlatformComponentStatus
		phase         v1alpha1.PlatformPhase
		ready         string
	}{
		"a missing namespace is created": {
			writes: create,
			status: created, phase: v1alpha1.PlatformDeploying, ready: "Ready=False ComponentsNotReady",
		},
		"an existing namespace is used although the cache lacks it": {
			uncached: namespace(), writes: create,
			status: created, phase: v1alpha1.PlatformDeploying, ready: "Ready=False ComponentsNotReady",
		},
		"the creation of the namespace is forbidden": {
			err:    apierrors.NewForbidden(schema.GroupResource{Resource: "namespaces"}, "shops", fmt.Errorf("no permission")),
			writes: []string{"create namespaces shops", updateStatus}, status: waiting, phase: v1alpha1.PlatformFailed,
			ready: `Ready=False Forbidden: Creating Namespace shops failed: namespaces "shops" is forbidden: no permission. ` +
				`Create the namespace yourself, or allow the service account of the operator to create namespaces.`,
		},
		"the namespace is being deleted": {
			cached: terminatingNamespace(), writes: []string{updateStatus}, status: waiting, phase: v1alpha1.PlatformPending,
			ready: "Ready=False NamespaceTerminating: Namespace shops is being deleted, and the operator does not " +
				"create it again",
		},
		"the namespace is created later if the first creation failed": {
			before: hadNamespaceOf(""), writes: create, status: created, phase: v1alpha1.PlatformDeploying,
			ready: "Ready=False ComponentsNotReady",
		},
		"the namespace is created if the status names none": {
			before: func(p *v1alpha1.Platform) { p.Status.ObservedGeneration = p.Generation },
			writes: create, status: created, phase: v1alpha1.PlatformDeploying, ready: "Ready=False ComponentsNotReady",
		},
		"a deleted namespace is not created again": {
			before: hadNamespaceOf("uid-1"), writes: []string{updateStatus}, status: waiting,
			phase: v1alpha1.PlatformFailed, ready: "Ready=False NamespaceGone",
		},
		"an outdated status does not create the namespace again": {
			before: hadNamespaceOf(""), since: hadNamespaceOf("uid-1"),
		},
		"an existing namespace that is missing from the cache is used": {
			before: hadNamespaceOf("uid-1"), uncached: namespace(), writes: create[1:], status: created,
			phase: v1alpha1.PlatformDeploying, ready: "Ready=False ComponentsNotReady",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, example(app("web")))
			if c.cached != nil {
				f.Store(c.cached)
			}
			if c.before != nil {
				f.Change(c.before)
			}
			f.Observe()
			if c.uncached != nil {
				f.Store(c.uncached)
			}
			if c.since != nil {
				f.Change(c.since)
			}
			if c.err != nil {
				f.Journal.FailNext("create", "namespaces", c.err)
			}
			controllertest.Equal(t, "writes", c.writes, f.ReconcileAsCached().Writes)
			if len(c.writes) == 0 {
				return
			}
			f.checkComponents(c.status...)
			controllertest.Equal(t, "phase", c.phase, f.Object().Status.Phase)
			f.checkCondition(c.ready)
		})
	}
}

// TestReconcileCreatesComponentsInRecreatedNamespace has a namespace that a user has created again.
func TestReconcileCreatesComponentsInRecreatedNamespace(t *testing.T) {
	f := newFixture(t, example(app("web")))
	f.Change(hadNamespaceOf("uid-1"))
	controllertest.Equal(t, "writes without the namespace", []string{updateStatus}, f.Reconcile().Writes)
	recreated := namespace()
	recreated.UID = "uid-2"
	f.Store(recreated)
	r := f.Reconcile()
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	controllertest.Equal(t, "writes", []string{"create apps shops/shop-web", updateStatus}, r.Writes)
	controllertest.Equal(t, "namespace", ptr.To[types.UID]("uid-2"), f.Object().Status.NamespaceUID)
}

func TestReconcileRejectsSystemNamespaces(t *testing.T) {
	for name, c := range map[string]struct{ namespace, ready string }{
		"the namespace belongs to Kubernetes": {
			"kube-system", "Ready=False NamespaceNotAllowed: Namespace kube-system belongs to Kubernetes",
		},
		"the namespace belongs to the operator": {
			"operators", "Ready=False NamespaceNotAllowed: Namespace operators belongs to the operator",
		},
	} {
		t.Run(name, func(t *testing.T) {
			platform := example(app("web"))
			platform.Spec.Namespace = c.namespace
			f := newFixture(t, platform)
			controllertest.Equal(t, "writes", []string{updateStatus}, f.Reconcile().Writes)
			f.checkCondition(c.ready)
			f.delete()
			r := f.Reconcile()
			if r.Err != nil {
				t.Error(r.Err)
			}
			controllertest.Equal(t, "writes of the deletion", []string{"patch platforms shop"}, r.Writes)
			controllertest.Equal(t, "the Platform is gone", true, f.Object() == nil)
		})
	}
}
