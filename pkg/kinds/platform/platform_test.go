package platform

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/conditions"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

func TestMain(m *testing.M) { controllertest.Main(m, Messages) }

func TestReconcilePlatform(t *testing.T) {
	type (
		spec   = []v1alpha1.PlatformComponent
		status = []v1alpha1.PlatformComponentStatus
	)
	for name, c := range map[string]struct {
		spec     spec
		children []child
		writes   []string
		status   status
		phase    v1alpha1.PlatformPhase
		ready    string // how the condition begins
		// later are the writes of the reconciles that follow, until one writes nothing.
		later []string
	}{
		"a component of each kind results in a child of that kind": {
			spec: spec{app("web"), database("db"), externalDatabase("ext"), at("job")},
			writes: []string{
				"create apps shops/shop-web", "create databases shops/shop-db",
				"create externaldatabases shops/shop-ext", "create ats shops/shop-job", updateStatus,
			},
			status: status{
				reported("web", "App", v1alpha1.Managed, "Pending", reasonNew),
				reported("db", "Database", v1alpha1.Managed, "Pending", reasonNew),
				reported("ext", "ExternalDatabase", v1alpha1.Managed, "Pending", reasonNew),
				reported("job", "At", v1alpha1.Managed, "Pending", reasonNew),
			},
			phase: v1alpha1.PlatformDeploying, ready: "Ready=False ComponentsNotReady: 4 of 4 components are not ready.",
		},
		"a component waits for its dependency": {
			spec:   spec{app("web", "db"), database("db")},
			writes: []string{"create databases shops/shop-db", updateStatus},
			status: status{
				reported("web", "App", v1alpha1.Managed, "Waiting", reasonWaiting),
				reported("db", "Database", v1alpha1.Managed, "Pending", reasonNew),
			},
			phase: v1alpha1.PlatformDeploying,
			ready: "Ready=False ComponentsNotReady: 2 of 2 components are not ready. db is Pending: Database shop-db " +
				"has not reported its status yet; web is Waiting: Waiting for db to be Ready.",
		},
		"a Platform whose components are all Ready is Ready": {
			spec:     spec{app("web", "db"), database("db")},
			children: []child{{app("web", "db"), ready}, {database("db"), ready}},
			writes:   []string{updateStatus},
			status: status{
				reported("web", "App", v1alpha1.Managed, "Ready", "Available"),
				reported("db", "Database", v1alpha1.Managed, "Ready", "Available"),
			},
			phase: v1alpha1.PlatformReady, ready: "Ready=True ComponentsReady: Every Managed component is Ready, and every " +
				"Removed component is deleted.",
		},
		"a changed child is not Ready until it reports its status": {
			spec:     spec{app("web")},
			children: []child{{v1alpha1.PlatformComponent{Name: "web", App: &v1alpha1.AppSpec{Image: "web:0"}}, ready}},
			writes:   []string{"patch apps shops/shop-web", updateStatus},
			status:   status{reported("web", "App", v1alpha1.Managed, "Pending", reasonNew)},
			phase:    v1alpha1.PlatformDeploying, ready: "Ready=False ComponentsNotReady: 1 of 1 components are not ready.",
		},
		"a Degraded child delays only the components that depend on it": {
			spec:     spec{app("web", "db"), database("db"), app("docs")},
			children: []child{{database("db"), degraded}},
			writes:   []string{"create apps shops/shop-docs", updateStatus},
			status: status{
				reported("web", "App", v1alpha1.Managed, "Waiting", reasonWaiting),
				reported("db", "Database", v1alpha1.Managed, "Failed", "Unavailable"),
				reported("docs", "App", v1alpha1.Managed, "Pending", reasonNew),
			},
			phase: v1alpha1.PlatformFailed, ready: "Ready=False ComponentsNotReady: 3 of 3 components are not ready.",
		},
		"a Removed component and a component that is no longer in the spec are deleted": {
			spec:     spec{removed(app("web"))},
			children: []child{{app("web"), ready}, {database("db"), ready}},
			writes:   []string{"delete apps shops/shop-web", "delete databases shops/shop-db", updateStatus},
			status: status{
				reported("web", "App", v1alpha1.Removed, "Removing", reasonRemoving),
				reported("db", "Database", v1alpha1.Removed, "Removing", reasonRemoving),
			},
			phase: v1alpha1.PlatformDeploying, ready: "Ready=False ComponentsNotReady",
			later: []string{updateStatus},
		},
		"components that are no longer in the spec are deleted in the reverse order of their dependencies": {
			children: []child{{database("db"), ready}, {app("web", "db"), ready}},
			writes:   []string{"delete apps shops/shop-web", updateStatus},
			status: status{
				reported("db", "Database", v1alpha1.Removed, "Waiting", messageHeld.Reason),
				reported("web", "App", v1alpha1.Removed, "Removing", reasonRemoving),
			},
			phase: v1alpha1.PlatformDeploying, ready: "Ready=False ComponentsNotReady",
			later: []string{"delete databases shops/shop-db", updateStatus, updateStatus},
		},
		"a Removed component stays while a Managed component depends on it": {
			spec:     spec{app("web", "db"), removed(database("db"))},
			children: []child{{database("db"), ready}, {app("web", "db"), ready}},
			writes:   []string{updateStatus},
			status: status{
				reported("web", "App", v1alpha1.Managed, "Ready", "Available"),
				reported("db", "Database", v1alpha1.Removed, "Waiting", messageHeld.Reason),
			},
			phase: v1alpha1.PlatformFailed, // a user has to change the spec
			ready: "Ready=False ComponentsNotReady: 1 of 2 components are not ready. db is Waiting: Waiting for the " +
				"deletion of components that depend on this component: web (which is Managed).",
		},
		"a Platform whose Removed component has no child is Ready": {
			spec:   spec{removed(app("web"))},
			writes: []string{updateStatus}, status: status{reported("web", "App", v1alpha1.Removed, "Removed", "")},
			phase: v1alpha1.PlatformReady, ready: "Ready=True",
		},
		"a released child gets its owner reference back before it is deleted": {
			spec:     spec{removed(app("web"))},
			children: []child{{app("web"), released}},
			writes:   []string{"patch apps shops/shop-web", updateStatus}, status: status{
				reported("web", "App", v1alpha1.Removed, "Removing", reasonRemoving),
			},
			phase: v1alpha1.PlatformDeploying, ready: "Ready=False ComponentsNotReady",
			later: []string{"delete apps shops/shop-web", updateStatus},
		},
		"a copy of a child stays": {
			spec:     spec{app("web")},
			children: []child{{app("web"), ready}, {app("copy"), copied}},
			writes:   []string{updateStatus}, status: status{reported("web", "App", v1alpha1.Managed, "Ready", "Available")},
			phase: v1alpha1.PlatformReady, ready: "Ready=True",
		},
		"the child of an Unmanaged component is released": {
			spec:     spec{unmanaged(app("web"))},
			children: []child{{app("web"), pending}},
			writes:   []string{"patch apps shops/shop-web", updateStatus}, status: status{
				reported("web", "App", v1alpha1.Unmanaged, "Pending", "Unavailable"),
			},
			phase: v1alpha1.PlatformReady, ready: "Ready=True",
		},
		"an Unmanaged component whose child was released is not written": {
			spec:     spec{unmanaged(app("web")), unmanaged(app("docs")), unmanaged(app("none"))},
			children: []child{{app("web"), released}, {app("docs"), foreign}},
			writes:   []string{updateStatus},
			status: status{
				reported("web", "App", v1alpha1.Unmanaged, "Pending", "Unavailable"),
				reported("docs", "App", v1alpha1.Unmanaged, "Pending", "Unavailable"),
				reported("none", "App", v1alpha1.Unmanaged, "Absent", ""),
			},
			phase: v1alpha1.PlatformReady, ready: "Ready=True",
		},
		"an object of a user with the name of a child is not adopted": {
			spec:     spec{app("web"), database("db")},
			children: []child{{app("web"), foreign}},
			writes:   []string{"create databases shops/shop-db", updateStatus},
			status: status{
				reported("web", "App", v1alpha1.Managed, "Waiting", "NameConflict"),
				reported("db", "Database", v1alpha1.Managed, "Pending", reasonNew),
			},
			phase: v1alpha1.PlatformFailed, ready: "Ready=False NameConflict: component web: App shops/shop-web " +
				"already exists and belongs to nobody",
		},
		"an object of a user that names the Platform in its annotation is adopted": {
			spec:     spec{app("web")},
			children: []child{{app("web"), adoptable}},
			writes:   []string{"patch apps shops/shop-web", updateStatus},
			status:   status{reported("web", "App", v1alpha1.Managed, "Pending", "Unavailable")},
			phase:    v1alpha1.PlatformDeploying, ready: "Ready=False",
		},
		"a component whose kind has changed waits for the deletion of its previous child": {
			spec:     spec{app("web", "db"), externalDatabase("db")},
			children: []child{{database("db"), ready}, {app("web", "db"), ready}},
			writes:   []string{"delete databases shops/shop-db", updateStatus},
			status: status{
				reported("web", "App", v1alpha1.Managed, "Ready", "Available"),
				reported("db", "ExternalDatabase", v1alpha1.Managed, "Waiting", reasonReplacing),
				reported("db", "Database", v1alpha1.Removed, "Removing", reasonRemoving),
			},
			phase: v1alpha1.PlatformDeploying, ready: "Ready=False",
			later: []string{"create externaldatabases shops/shop-db", updateStatus},
		},
		"a change of dependencies is recorded in the child": {
			spec:     spec{app("web"), database("db")},
			children: []child{{app("web", "db"), ready}, {database("db"), ready}},
			writes:   []string{"patch apps shops/shop-web", updateStatus},
			status: status{
				reported("web", "App", v1alpha1.Managed, "Ready", "Available"),
				reported("db", "Database", v1alpha1.Managed, "Ready", "Available"),
			},
			phase: v1alpha1.PlatformReady, ready: "Ready=True",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, example(c.spec...), namespace())
			for _, existing := range c.children {
				f.addChild(existing.component, existing.state)
			}
			controllertest.Equal(t, "writes", c.writes, f.Reconcile().Writes)
			f.checkComponents(c.status...)
			controllertest.Equal(t, "phase", c.phase, f.Object().Status.Phase)
			f.checkCondition(c.ready)
			controllertest.Equal(t, "writes of later reconciles", c.later, f.settle())
			if c.phase == v1alpha1.PlatformReady {
				controllertest.Resyncs(t, 10*time.Minute, f.Reconcile().Result)
			}
		})
	}
}

func TestFinalizePlatform(t *testing.T) {
	for name, c := range map[string]struct {
		spec     []v1alpha1.PlatformComponent
		children []child
		orphan   bool
		writes   []string
		status   []v1alpha1.PlatformComponentStatus // nil if the finalizer is removed
		ready    string                             // how the condition begins
	}{
		"a child is deleted before its dependencies": {
			spec:     []v1alpha1.PlatformComponent{app("web", "db"), database("db"), removed(app("old"))},
			children: []child{{app("web", "db"), ready}, {database("db"), ready}, {app("old"), deleting}},
			writes:   []string{"delete apps shops/shop-web", updateStatus},
			status: []v1alpha1.PlatformComponentStatus{
				reported("web", "App", v1alpha1.Managed, "Removing", reasonRemoving),
				reported("db", "Database", v1alpha1.Managed, "Waiting", messageHeld.Reason),
				reported("old", "App", v1alpha1.Removed, "Removing", reasonRemoving),
			},
			ready: "Ready=False RemovingComponents: Removing components: 3 left. web is Removing: App shop-web is " +
				"being deleted; old is Removing: App shop-old is being deleted. " +
				"Its condition Ready says: It is not available yet; db is Waiting: Waiting for the deletion of " +
				"components that depend on this component: web.",
		},
		"the child of an Unmanaged component is released": {
			spec:     []v1alpha1.PlatformComponent{unmanaged(app("web")), unmanaged(app("docs"))},
			children: []child{{app("web"), ready}, {app("docs"), released}},
			writes:   []string{"patch apps shops/shop-web", "patch platforms shop"},
		},
		"the child of an Unmanaged component is released although the Platform does not control it": {
			spec:     []v1alpha1.PlatformComponent{unmanaged(app("web"))},
			children: []child{{app("web"), shared}},
			writes:   []string{"patch apps shops/shop-web", "patch platforms shop"},
		},
		"objects that the Platform does not control stay": {
			spec:     []v1alpha1.PlatformComponent{app("web"), app("docs"), removed(app("old"))},
			children: []child{{app("web"), foreign}, {app("docs"), released}, {app("old"), released}},
			writes:   []string{"patch platforms shop"},
		},
		"children that are to be orphaned are left to garbage collection": {
			spec: []v1alpha1.PlatformComponent{app("web")}, children: []child{{app("web"), ready}}, orphan: true,
			writes: []string{"patch platforms shop"},
		},
		"components in a cycle are deleted beside a component without a kind": {
			spec:     []v1alpha1.PlatformComponent{app("a", "b"), app("b", "a"), {Name: "none"}},
			children: []child{{app("a", "b"), ready}, {app("b", "a"), ready}},
			writes:   []string{"delete apps shops/shop-a", "delete apps shops/shop-b", updateStatus},
			status: []v1alpha1.PlatformComponentStatus{
				reported("a", "App", v1alpha1.Managed, "Removing", reasonRemoving),
				reported("b", "App", v1alpha1.Managed, "Removing", reasonRemoving),
			},
			ready: "Ready=False RemovingComponents",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, example(c.spec...))
			for _, existing := range c.children {
				f.addChild(existing.component, existing.state)
			}
			f.delete()
			if c.orphan {
				f.Change(func(p *v1alpha1.Platform) { p.Finalizers = append(p.Finalizers, metav1.FinalizerOrphanDependents) })
			}
			controllertest.Equal(t, "writes", c.writes, f.Reconcile().Writes)
			controllertest.Equal(t, "the Platform is gone", len(c.status) == 0 && !c.orphan, f.Object() == nil)
			if len(c.status) > 0 {
				f.checkComponents(c.status...)
				controllertest.Equal(t, "phase", v1alpha1.PlatformDeleting, f.Object().Status.Phase)
				f.checkCondition(c.ready)
			}
		})
	}
}

func TestFinalizeReportsFailedDeletionOfComponent(t *testing.T) {
	for name, c := range map[string]struct {
		err              error
		degraded, advice string
	}{
		"an error of the API server": {errors.New("etcd is full"), "Degraded=True ReconcileError: ", "component web: "},
		"a policy": {
			apierrors.NewForbidden(v1alpha1.Resource("apps"), "shop-web", errors.New("locked by a policy")),
			"Degraded=True Forbidden: ", "locked by a policy. Ask the administrator of namespace shops",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, example(app("web")))
			f.addChild(app("web"), ready)
			f.delete()
			f.Journal.FailNext("delete", "apps", c.err)
			controllertest.Equal(t, "writes", []string{"delete apps shops/shop-web", updateStatus}, f.Reconcile().Writes)
			f.checkCondition(c.degraded + "deleting the components (to keep a component, set its managementState to " +
				"Unmanaged): component web: ")
			controllertest.Equal(t, "phase", v1alpha1.PlatformDeleting, f.Object().Status.Phase)
			if degraded := conditions.Find(f.Object().Status.Conditions,
				conditions.Degraded); !strings.Contains(degraded.Message, c.advice) {
				t.Errorf("the message is %s", degraded.Message)
			}
		})
	}
}

func TestComponentErrorSetsStatus(t *testing.T) {
	apps := v1alpha1.Resource("apps")
	for name, c := range map[string]struct {
		err    error
		reason string
		phase  v1alpha1.PlatformPhase
		ready  string // how the condition begins; empty if the status is not written
	}{
		"the creation is forbidden": {
			err: apierrors.NewForbidden(apps, "shop-web", fmt.Errorf("no permission")), reason: reasonForbidden,
			phase: v1alpha1.PlatformFailed,
			ready: `Ready=False Forbidden: component web: creating App shops/shop-web: apps.windlass.dev "shop-web" ` +
				`is forbidden: no permission. Ask the administrator of namespace shops to grant the permission to the service ` +
				`account of the operator, or to change the quota or the admission policy that forbids the request.`,
		},
		"the namespace is being deleted, which the cache has not observed": {
			err: terminating(), reason: reasonTerminating, phase: v1alpha1.PlatformDeploying,
			ready: "Ready=False NamespaceTerminating: Namespace shops is being deleted",
		},
		"the namespace was deleted, which the cache has not observed": {
			err: apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "shops"), reason: reasonNamespace,
			phase: v1alpha1.PlatformDeploying,
			ready: "Ready=False NamespaceMissing: Namespace shops was not found.",
		},
		"the child is invalid": {
			err: apierrors.NewInvalid(schema.GroupKind{Kind: "App"}, "shop-web", nil), reason: "Invalid",
			phase: v1alpha1.PlatformFailed,
			ready: "Ready=False Invalid: component web: creating App",
		},
		"a conflict leaves the status as it is": {err: apierrors.NewConflict(apps, "shop-web", fmt.Errorf("no"))},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, example(app("web"), app("docs")), namespace())
			f.Journal.FailNext("create", "apps", c.err)
			before, r := f.Object(), f.Reconcile()
			writes := []string{"create apps shops/shop-web", "create apps shops/shop-docs"}
			if r.Err == nil {
				t.Error("the reconcile returned no error")
			}
			if c.ready == "" {
				controllertest.Equal(t, "writes", writes, r.Writes)
				controllertest.Equal(t, "Platform", before, f.Object())
				return
			}
			controllertest.Equal(t, "writes", append(writes, updateStatus), r.Writes)
			f.checkComponents(reported("web", "App", v1alpha1.Managed, "Waiting", c.reason),
				reported("docs", "App", v1alpha1.Managed, "Pending", reasonNew))
			controllertest.Equal(t, "phase", c.phase, f.Object().Status.Phase)
			f.checkCondition(c.ready)
		})
	}
}

// terminating returns the error of a creation in a namespace that is being deleted.
func terminating() error {
	err := apierrors.NewForbidden(v1alpha1.Resource("apps"), "shop-web", fmt.Errorf("the namespace is being deleted"))
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	return err
}
