package platform

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

const status = "update platforms/status shop"

// there is a child that exists before a reconcile. Its component may no longer be in the spec.
type there struct {
	v1alpha1.PlatformComponent
	state string
}

func TestAPass(t *testing.T) {
	for name, c := range map[string]struct {
		spec   []v1alpha1.PlatformComponent
		there  []there
		writes []string
		says   []string
		phase  v1alpha1.PlatformPhase
		ready  string // a prefix of the condition
	}{
		"makes a component of each kind": {
			spec:   []v1alpha1.PlatformComponent{app("web"), database("db"), outside("ext"), at("job")},
			writes: []string{"create apps shops/shop-web", "create databases shops/shop-db", "create externaldatabases shops/shop-ext", "create ats shops/shop-job", status},
			says:   []string{"web App Managed Pending NotObserved", "db Database Managed Pending NotObserved", "ext ExternalDatabase Managed Pending NotObserved", "job At Managed Pending NotObserved"},
			phase:  "Deploying", ready: "False ComponentsNotReady: Not ready: 4 of 4 components.",
		},
		"starts what needs nothing, and says for what the rest waits": {
			spec:   []v1alpha1.PlatformComponent{app("web", "db"), database("db")},
			writes: []string{"create databases shops/shop-db", status},
			says:   []string{"web App Managed Waiting WaitingForComponents", "db Database Managed Pending NotObserved"},
			phase:  "Deploying", ready: "False ComponentsNotReady: Not ready: 2 of 2 components. db is Pending: Database shop-db is there, and has not said yet how it is; web is Waiting: Waiting for db to be Ready.",
		},
		"is Ready when all are": {
			spec:   []v1alpha1.PlatformComponent{app("web", "db"), database("db")},
			there:  []there{{app("web", "db"), "ready"}, {database("db"), "ready"}},
			writes: []string{status},
			says:   []string{"web App Managed Available", "db Database Managed Available"},
			phase:  "Ready", ready: "True ComponentsReady: Every Managed component is Ready, and every Removed one is gone.",
		},
		"writes what has changed, and is not Ready until that is seen": {
			spec:   []v1alpha1.PlatformComponent{app("web")},
			there:  []there{{v1alpha1.PlatformComponent{Name: "web", App: &v1alpha1.AppSpec{Image: "web:0"}}, "ready"}},
			writes: []string{"patch apps shops/shop-web", status},
			says:   []string{"web App Managed Available"}, phase: "Ready", ready: "True", // the fake server does not set generations
		},
		"does not start what needs something that was Ready, and has changed": {
			spec:   []v1alpha1.PlatformComponent{app("web", "db"), database("db")},
			there:  []there{{database("db"), "old"}},
			writes: []string{status},
			says:   []string{"web App Managed Waiting WaitingForComponents", "db Database Managed Pending NotObserved"}, phase: "Deploying", ready: "False",
		},
		"says what a child says that has failed, and goes on with the rest": {
			spec:   []v1alpha1.PlatformComponent{app("web", "db"), database("db"), app("docs")},
			there:  []there{{database("db"), "failed"}},
			writes: []string{"create apps shops/shop-docs", status},
			says:   []string{"web App Managed Waiting WaitingForComponents", "db Database Managed NotYet", "docs App Managed Pending NotObserved"},
			phase:  "Failed", ready: "False ComponentsNotReady: Not ready: 3 of 3 components.",
		},
		"removes what is Removed and what is off the list": {
			spec:   []v1alpha1.PlatformComponent{in(v1alpha1.Removed, app("web"))},
			there:  []there{{app("web"), "ready"}, {database("db"), "ready"}},
			writes: []string{"delete apps shops/shop-web", "delete databases shops/shop-db", status},
			says:   []string{"web App Removed Removing Removing", "db Database Removed Removing Removing"}, phase: "Deploying", ready: "False ComponentsNotReady",
		},
		"removes in the reverse order what is off the list": {
			there:  []there{{database("db"), "ready"}, {app("web", "db"), "ready"}},
			writes: []string{"delete apps shops/shop-web", status},
			says:   []string{"db Database Removed Waiting NeededByComponents", "web App Removed Removing Removing"}, phase: "Deploying", ready: "False ComponentsNotReady",
		},
		"keeps what is Removed as long as something Managed needs it": {
			spec:   []v1alpha1.PlatformComponent{app("web", "db"), in(v1alpha1.Removed, database("db"))},
			there:  []there{{database("db"), "ready"}, {app("web", "db"), "ready"}},
			writes: []string{status},
			says:   []string{"web App Managed Available", "db Database Removed Waiting NeededByComponents"}, phase: "Failed", // this does not resolve itself
			ready: "False ComponentsNotReady: Not ready: 1 of 2 components. db is Waiting: It stays until what depends on it is gone: web (which is Managed).",
		},
		"is Ready when what is Removed is gone": {
			spec:   []v1alpha1.PlatformComponent{in(v1alpha1.Removed, app("web"))},
			writes: []string{status}, says: []string{"web App Removed Removed"}, phase: "Ready", ready: "True",
		},
		"takes back what it has let go before it removes that": {
			spec:   []v1alpha1.PlatformComponent{in(v1alpha1.Removed, app("web"))},
			there:  []there{{app("web"), "released"}},
			writes: []string{"patch apps shops/shop-web", status}, says: []string{"web App Removed Removing Removing"}, phase: "Deploying", ready: "False ComponentsNotReady",
		},
		"leaves a copy that somebody has made of a child": {
			spec:   []v1alpha1.PlatformComponent{app("web")},
			there:  []there{{app("web"), "ready"}, {app("copy"), "copied"}},
			writes: []string{status}, says: []string{"web App Managed Available"}, phase: "Ready", ready: "True",
		},
		"waits for what is being deleted": {
			spec:   []v1alpha1.PlatformComponent{in(v1alpha1.Removed, database("db"))},
			there:  []there{{database("db"), "going"}},
			writes: []string{status}, says: []string{"db Database Removed Removing Removing"}, phase: "Deploying",
			ready: "False ComponentsNotReady: Not ready: 1 of 1 components. db is Removing: Database shop-db is being deleted. It says: db is not there yet.",
		},
		"lets go what is Unmanaged": {
			spec:   []v1alpha1.PlatformComponent{in(v1alpha1.Unmanaged, app("web"))},
			there:  []there{{app("web"), "pending"}},
			writes: []string{"patch apps shops/shop-web", status}, says: []string{"web App Unmanaged NotYet"}, phase: "Ready", ready: "True",
		},
		"writes nothing to what is Unmanaged": {
			spec:   []v1alpha1.PlatformComponent{in(v1alpha1.Unmanaged, app("web")), in(v1alpha1.Unmanaged, app("docs")), in(v1alpha1.Unmanaged, app("none"))},
			there:  []there{{app("web"), "released"}, {app("docs"), "foreign"}},
			writes: []string{status}, says: []string{"web App Unmanaged NotYet", "docs App Unmanaged NotYet", "none App Unmanaged Absent"}, phase: "Ready", ready: "True",
		},
		"takes back what it has let go": {
			spec:   []v1alpha1.PlatformComponent{app("web")},
			there:  []there{{app("web"), "released"}},
			writes: []string{"patch apps shops/shop-web", status}, says: []string{"web App Managed NotYet"}, phase: "Deploying", ready: "False",
		},
		"takes nothing that is somebody else's, and goes on with the rest": {
			spec:   []v1alpha1.PlatformComponent{app("web"), database("db")},
			there:  []there{{app("web"), "foreign"}},
			writes: []string{"create databases shops/shop-db", status},
			says:   []string{"web App Managed Waiting NameConflict", "db Database Managed Pending NotObserved"}, phase: "Failed",
			ready: "False NameConflict: component web: the name is taken by App shops/shop-web, which belongs to nobody",
		},
		"replaces one by another of its name once that is gone": {
			spec:   []v1alpha1.PlatformComponent{app("web", "db"), outside("db")},
			there:  []there{{database("db"), "ready"}, {app("web", "db"), "ready"}},
			writes: []string{"delete databases shops/shop-db", status},
			says:   []string{"web App Managed Available", "db ExternalDatabase Managed Waiting ReplacingComponent", "db Database Removed Removing Removing"}, phase: "Deploying", ready: "False",
		},
		"notes a change of what a component needs": {
			spec:   []v1alpha1.PlatformComponent{app("web"), database("db")},
			there:  []there{{app("web", "db"), "ready"}, {database("db"), "ready"}},
			writes: []string{"patch apps shops/shop-web", status}, says: []string{"web App Managed Available", "db Database Managed Available"}, phase: "Ready", ready: "True",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, example(c.spec...))
			w.house()
			for _, child := range c.there {
				w.has(child.PlatformComponent, child.state)
			}
			writes, _ := w.pass()
			platform := w.platform()
			controllertest.Equal(t, "writes", c.writes, writes)
			controllertest.Equal(t, "components", c.says, says(platform))
			controllertest.Equal(t, "phase", c.phase, platform.Status.Phase)
			if ready := condition(platform, "Ready"); !strings.HasPrefix(ready, c.ready) {
				t.Errorf("Ready is %s, and not %s", ready, c.ready)
			}
			if strings.Contains(strings.Join(writes, " "), "delete") {
				return // the fake server deletes at once
			}
			if writes, _ = w.pass(); strings.Contains(strings.Join(writes, " "), status) {
				t.Errorf("without a change the next pass wrote %v", writes)
			}
		})
	}
}

func TestADeletion(t *testing.T) {
	for name, c := range map[string]struct {
		spec    []v1alpha1.PlatformComponent
		there   []there
		orphan  bool
		writes  []string
		says    []string
		message string
	}{
		"removes what nothing needs, and says for what it waits": {
			spec:   []v1alpha1.PlatformComponent{app("web", "db"), database("db"), in(v1alpha1.Removed, app("old"))},
			there:  []there{{app("web", "db"), "ready"}, {database("db"), "ready"}, {app("old"), "going"}},
			writes: []string{"delete apps shops/shop-web", status},
			says:   []string{"web App Managed Removing Removing", "db Database Managed Waiting NeededByComponents", "old App Removed Removing Removing"},
			message: "False RemovingComponents: Removing components: 3 left. web is Removing: App shop-web is being deleted; old is Removing: App shop-old is being deleted. " +
				"It says: old is not there yet; db is Waiting: It stays until what depends on it is gone: web.",
		},
		"lets go what is Unmanaged, and goes": {
			spec:   []v1alpha1.PlatformComponent{in(v1alpha1.Unmanaged, app("web")), in(v1alpha1.Unmanaged, app("let"))},
			there:  []there{{app("web"), "ready"}, {app("let"), "released"}},
			writes: []string{"patch apps shops/shop-web", "patch platforms shop"},
		},
		"lets go what is Unmanaged and bears its reference not as the one that controls it": {
			spec:   []v1alpha1.PlatformComponent{in(v1alpha1.Unmanaged, app("web"))},
			there:  []there{{app("web"), "shared"}},
			writes: []string{"patch apps shops/shop-web", "patch platforms shop"},
		},
		"removes what is off the list": {
			there:  []there{{app("web"), "ready"}},
			writes: []string{"delete apps shops/shop-web", status}, says: []string{"web App Removed Removing Removing"}, message: "False RemovingComponents",
		},
		"leaves what it does not control": {
			spec:   []v1alpha1.PlatformComponent{app("web"), app("docs"), in(v1alpha1.Removed, app("old"))},
			there:  []there{{app("web"), "foreign"}, {app("docs"), "released"}, {app("old"), "released"}},
			writes: []string{"patch platforms shop"},
		},
		"leaves all to garbage collection that orphans it": {
			spec: []v1alpha1.PlatformComponent{app("web")}, there: []there{{app("web"), "ready"}}, orphan: true,
			writes: []string{"patch platforms shop"},
		},
		"removes what needs each other, and what has no kind does not stop it": {
			spec:   []v1alpha1.PlatformComponent{app("a", "b"), app("b", "a"), {Name: "none"}},
			there:  []there{{app("a", "b"), "ready"}, {app("b", "a"), "ready"}},
			writes: []string{"delete apps shops/shop-a", "delete apps shops/shop-b", status},
			says:   []string{"a App Managed Removing Removing", "b App Managed Removing Removing"}, message: "False RemovingComponents",
		},
	} {
		t.Run(name, func(t *testing.T) {
			platform := example(c.spec...)
			w := newWorld(t, platform)
			for _, child := range c.there {
				w.has(child.PlatformComponent, child.state)
			}
			w.change(func(platform *v1alpha1.Platform) {
				platform.DeletionTimestamp = &metav1.Time{Time: time.Now()}
				if c.orphan {
					platform.Finalizers = append(platform.Finalizers, metav1.FinalizerOrphanDependents)
				}
			})
			writes, _ := w.pass()
			controllertest.Equal(t, "writes", c.writes, writes)
			if len(c.says) == 0 {
				return
			}
			platform = w.platform()
			controllertest.Equal(t, "components", c.says, says(platform))
			controllertest.Equal(t, "phase", v1alpha1.PlatformDeleting, platform.Status.Phase)
			if ready := condition(platform, "Ready"); !strings.HasPrefix(ready, c.message) {
				t.Errorf("Ready is %s, and not %s", ready, c.message)
			}
		})
	}
}

func TestASpecThatCannotBeIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		spec  []v1alpha1.PlatformComponent
		ready string
	}{
		"a cycle":           {[]v1alpha1.PlatformComponent{app("a", "b"), app("b", "c"), app("c", "a")}, "False DependencyCycle: components depend on each other in a cycle, so that none of them can be the first: a -> b -> c -> a;"},
		"a name of nothing": {[]v1alpha1.PlatformComponent{app("a", "b")}, `False InvalidSpec: component "a" depends on unknown component "b"`},
		"no kind":           {[]v1alpha1.PlatformComponent{{Name: "a"}}, `False InvalidSpec: component "a" has none of app, database, externalDatabase and at`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, example(append(c.spec, app("fine"))...))
			writes, err := w.pass()
			controllertest.Equal(t, "writes", []string{status}, writes)
			platform := w.platform()
			if ready := condition(platform, "Ready"); !strings.HasPrefix(ready, c.ready) || !controller.Degrades(err) {
				t.Errorf("Ready is %s, and not %s (%v)", ready, c.ready, err)
			}
			controllertest.Equal(t, "phase", v1alpha1.PlatformFailed, platform.Status.Phase)
			if condition(platform, "Stalled") == "" {
				t.Error("it is not Stalled")
			}
		})
	}
}

func TestTheNamespace(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "namespaces"}, "shops", fmt.Errorf("no right"))
	for name, c := range map[string]struct {
		going  bool
		err    error
		writes []string
		says   []string
		phase  v1alpha1.PlatformPhase
		ready  string
	}{
		"is made": {
			writes: []string{"create namespaces shops", "create apps shops/shop-web", status},
			says:   []string{"web App Managed Pending NotObserved"}, phase: "Deploying", ready: "False ComponentsNotReady",
		},
		"may be there though the cache does not know": {
			err:    apierrors.NewAlreadyExists(schema.GroupResource{Resource: "namespaces"}, "shops"),
			writes: []string{"create namespaces shops", "create apps shops/shop-web", status},
			says:   []string{"web App Managed Pending NotObserved"}, phase: "Deploying", ready: "False ComponentsNotReady",
		},
		"may not be made": {
			err: forbidden, writes: []string{"create namespaces shops", status}, says: []string{"web App Managed Waiting NamespaceMissing"}, phase: "Failed",
			ready: `False Forbidden: creating Namespace shops: namespaces "shops" is forbidden: no right; create it yourself, or give the operator's account that right`,
		},
		"is being deleted": {
			going: true, writes: []string{status}, says: []string{"web App Managed Waiting NamespaceMissing"}, phase: "Pending",
			ready: "False NamespaceTerminating: Namespace shops is being deleted. It is not made again",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, example(app("web")))
			if c.going {
				w.house(func(ns *metav1.PartialObjectMetadata) { ns.DeletionTimestamp = &metav1.Time{Time: time.Now()} })
			}
			if c.err != nil {
				w.journal.FailNext("create", "namespaces", c.err)
			}
			writes, _ := w.pass()
			controllertest.Equal(t, "writes", c.writes, writes)
			platform := w.platform()
			controllertest.Equal(t, "components", c.says, says(platform))
			controllertest.Equal(t, "phase", c.phase, platform.Status.Phase)
			if ready := condition(platform, "Ready"); !strings.HasPrefix(ready, c.ready) {
				t.Errorf("Ready is %s, and not %s", ready, c.ready)
			}
		})
	}
}

func TestErrorsOfAComponent(t *testing.T) {
	apps := schema.GroupResource{Group: v1alpha1.GroupName, Resource: "apps"}
	terminating := apierrors.NewForbidden(apps, "shop-web", fmt.Errorf("it goes"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for name, c := range map[string]struct {
		err            error
		reason, ready  string
		phase          v1alpha1.PlatformPhase
		statusNotYet   bool
		degraded, made bool
	}{
		"no right": {err: apierrors.NewForbidden(apps, "shop-web", fmt.Errorf("no right")), reason: "Forbidden", phase: "Failed",
			ready: `False Forbidden: component web: creating App shops/shop-web: apps.windlass.dev "shop-web" is forbidden: no right; it is for whoever governs namespace shops to allow it`},
		"a namespace that is being deleted, which the cache does not know": {err: terminating, reason: "NamespaceTerminating", phase: "Deploying", ready: "False NamespaceTerminating: Namespace shops is being deleted"},
		"a namespace that is gone, which the cache does not know": {err: apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "shops"), reason: "NamespaceMissing", phase: "Deploying",
			ready: "False NamespaceMissing: Namespace shops was not found."},
		"what the child's own rules refuse": {err: apierrors.NewInvalid(schema.GroupKind{Kind: "App"}, "shop-web", nil), reason: "Invalid", phase: "Failed", ready: "False Invalid: component web: creating App"},
		"a server that is not well":         {err: apierrors.NewInternalError(fmt.Errorf("no")), reason: "InternalError", phase: "Deploying", ready: "False InternalError: component web: creating App"},
		"a conflict says nothing":           {err: apierrors.NewConflict(apps, "shop-web", fmt.Errorf("no")), statusNotYet: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, example(app("web"), app("docs")))
			w.house()
			w.journal.FailNext("create", "apps", c.err)
			writes, err := w.pass()
			want := []string{"create apps shops/shop-web", "create apps shops/shop-docs", status}
			if c.statusNotYet {
				want = want[:2]
			}
			controllertest.Equal(t, "writes", want, writes)
			if err == nil {
				t.Fatal("the pass ended without an error")
			}
			if c.statusNotYet {
				return
			}
			platform := w.platform()
			controllertest.Equal(t, "components", []string{"web App Managed Waiting " + c.reason, "docs App Managed Pending NotObserved"}, says(platform))
			controllertest.Equal(t, "phase", c.phase, platform.Status.Phase)
			if ready := condition(platform, "Ready"); !strings.HasPrefix(ready, c.ready) {
				t.Errorf("Ready is %s, and not %s", ready, c.ready)
			}
		})
	}
}
