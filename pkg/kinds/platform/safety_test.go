package platform

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/conditions"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

// reads returns how often a Platform was read from the server.
func (w *world) reads() int { return controllertest.Reads(w.windlass.Actions(), "platforms") }

func TestNothingIsDeletedByASpecThatIsNotTheNewest(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.Platform){
		"it has changed":                     func(p *v1alpha1.Platform) { p.Generation = 2 },
		"it is another":                      func(p *v1alpha1.Platform) { p.UID = "other-uid" },
		"it is being deleted":                func(p *v1alpha1.Platform) { p.DeletionTimestamp = &metav1.Time{Time: time.Now()} },
		"it is deleted without its children": func(p *v1alpha1.Platform) { p.Finalizers = append(p.Finalizers, metav1.FinalizerOrphanDependents) },
		"it is paused":                       func(p *v1alpha1.Platform) { p.Annotations = map[string]string{controller.PausedAnnotation: "true"} },
		"it is gone":                         nil,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, example(in(v1alpha1.Removed, app("web")), in(v1alpha1.Removed, app("docs"))))
			w.house()
			w.has(app("web"), "ready")
			w.has(app("docs"), "ready")
			w.fill()
			if change != nil {
				w.change(change)
			} else if err := w.windlass.Tracker().Delete(v1alpha1.SchemeGroupVersion.WithResource("platforms"), "", "shop"); err != nil {
				t.Fatal(err)
			}
			writes, reads := len(w.journal.Writes()), w.reads()
			_, err := w.pipeline.Sync(t.Context(), key)
			controllertest.Equal(t, "writes", nil, w.journal.Writes()[writes:])
			controllertest.Equal(t, "reads", 1, w.reads()-reads)
			if err == nil || !strings.HasSuffix(err.Error(), "postponed by 1s") {
				t.Errorf("the pass ended with %v", err)
			}
		})
	}
}

func TestACommandIsNotRunByASpecThatIsNotTheNewest(t *testing.T) {
	w := newWorld(t, example(at("job"), app("web")))
	w.house()
	w.fill()
	w.change(func(p *v1alpha1.Platform) { p.Generation = 2 })
	before := len(w.journal.Writes())
	_, _ = w.pipeline.Sync(t.Context(), key)
	controllertest.Equal(t, "writes", nil, w.journal.Writes()[before:])
	writes, err := w.pass()
	if err != nil {
		t.Fatal(err)
	}
	controllertest.Equal(t, "writes of a pass that knows the newest", []string{"create ats shops/shop-job", "create apps shops/shop-web", status}, writes)
}

// TestWhatGoesDuringAPassIsNotMadeAgainByIt has an At that somebody deletes while an earlier component is
// created. The reconcile has not confirmed that the At is still desired.
func TestWhatGoesDuringAPassIsNotMadeAgainByIt(t *testing.T) {
	w := newWorld(t, example(app("web"), at("job")))
	w.house()
	w.has(at("job"), "ready")
	w.fill()
	w.windlass.PrependReactor("create", "apps", func(clienttesting.Action) (bool, runtime.Object, error) {
		if err := w.cluster.Own.Cnat().V1().Ats().Informer().GetStore().Replace(nil, "9"); err != nil {
			t.Error(err)
		}
		return false, nil, nil
	})
	before := len(w.journal.Writes())
	_, err := w.pipeline.Sync(t.Context(), key)
	if err == nil || !controller.Quiet(err) {
		t.Errorf("the pass ended with %v", err)
	}
	controllertest.Equal(t, "writes", []string{"create apps shops/shop-web"}, w.journal.Writes()[before:])
}

// TestNothingIsMadeAgainForAPlatformThatIsGone has an outdated cache, as a process that has just started
// can have. Objects that it creates could outlive the Platform.
func TestNothingIsMadeAgainForAPlatformThatIsGone(t *testing.T) {
	for name, c := range map[string]struct {
		seen  bool
		house bool
	}{
		"a component":                     {seen: true, house: true},
		"the namespace":                   {seen: true},
		"a component that the status has": {house: true},
		"the first namespace":             {},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, example(app("web"), database("db")))
			if c.house {
				w.house()
			}
			if c.seen {
				w.change(func(p *v1alpha1.Platform) {
					p.Status.ObservedGeneration, p.Status.NamespaceUID = p.Generation, ptr.To[types.UID]("")
				})
			}
			w.fill()
			if err := w.windlass.Tracker().Delete(v1alpha1.SchemeGroupVersion.WithResource("platforms"), "", "shop"); err != nil {
				t.Fatal(err)
			}
			before := w.reads()
			_, err := w.pipeline.Sync(t.Context(), key)
			writes := slices.DeleteFunc(w.journal.Writes(), func(write string) bool { return write == status })
			controllertest.Equal(t, "writes", nil, writes)
			if err == nil {
				t.Error("the pass ended well")
			}
			controllertest.Equal(t, "reads", 1, w.reads()-before)
		})
	}
}

func TestEachDeletionIsConfirmed(t *testing.T) {
	w := newWorld(t, example(in(v1alpha1.Removed, app("web")), in(v1alpha1.Removed, app("docs"))))
	w.house()
	w.has(app("web"), "ready")
	w.has(app("docs"), "ready")
	w.fill()
	before := w.reads()
	if _, err := w.pipeline.Sync(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	controllertest.Equal(t, "reads", 2, w.reads()-before)
}

func TestChangesAreConfirmedOnceASecond(t *testing.T) {
	w := newWorld(t, example(app("web"), app("docs"), app("new")))
	w.house()
	for _, name := range []string{"web", "docs"} {
		w.has(v1alpha1.PlatformComponent{Name: v1alpha1.ComponentName(name), App: &v1alpha1.AppSpec{Image: "old:1"}}, "ready")
	}
	w.fill()
	before := w.reads()
	if _, err := w.pipeline.Sync(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	controllertest.Equal(t, "reads", 1, w.reads()-before)
}

func TestAChildIsDeletedOnceThoughTheCacheHasItStill(t *testing.T) {
	w := newWorld(t, example(in(v1alpha1.Removed, app("web"))))
	w.house()
	w.has(app("web"), "ready")
	deletions := 0
	w.windlass.PrependReactor("delete", "apps", func(clienttesting.Action) (bool, runtime.Object, error) {
		deletions++
		return true, nil, nil // the cache gets no event
	})
	for range 3 {
		if _, err := w.pass(); err != nil {
			t.Fatal(err)
		}
	}
	controllertest.Equal(t, "deletions", 1, deletions)
	controllertest.Equal(t, "components", []string{"web App Removed Removing Removing"}, says(w.platform()))
}

// TestWhatCouldNotBeChangedIsNotReady has an App that depends on a Database. The Database is Ready in its
// former state, and could not be updated to its desired state.
func TestWhatCouldNotBeChangedIsNotReady(t *testing.T) {
	databases := schema.GroupResource{Group: v1alpha1.GroupName, Resource: "databases"}
	for name, err := range map[string]error{
		"a conflict":    apierrors.NewConflict(databases, "shop-db", fmt.Errorf("changed")),
		"a refusal":     apierrors.NewInvalid(schema.GroupKind{Kind: "Database"}, "shop-db", nil),
		"another error": apierrors.NewInternalError(fmt.Errorf("no")),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, example(app("web", "db"), database("db")))
			w.house()
			w.has(v1alpha1.PlatformComponent{Name: "db", Database: &v1alpha1.DatabaseSpec{Version: "16"}}, "ready")
			w.journal.FailNext("patch", "databases", err)
			writes, _ := w.pass()
			controllertest.Equal(t, "the first write", "patch databases shops/shop-db", writes[0])
			if strings.Contains(strings.Join(writes, " "), "create apps") {
				t.Errorf("the App is started: %v", writes)
			}
			controllertest.Equal(t, "ready", 0, w.platform().Status.ReadyComponents)
		})
	}
}

// TestAConflictIsNotTold has one component with an outdated state, and one that fails.
func TestAConflictIsNotTold(t *testing.T) {
	w := newWorld(t, example(app("web"), app("docs")))
	w.house()
	w.has(v1alpha1.PlatformComponent{Name: "web", App: &v1alpha1.AppSpec{Image: "old:1"}}, "ready")
	w.change(func(p *v1alpha1.Platform) { p.Spec.Components[0].ManagementState = v1alpha1.Removed })
	w.has(app("docs"), "foreign")
	w.fill()
	w.change(func(p *v1alpha1.Platform) { p.Generation = 2 }) // so that the removal is postponed
	if _, err := w.pipeline.Sync(t.Context(), key); err == nil {
		t.Fatal("the pass ended well")
	}
	if ready := condition(w.platform(), "Ready"); strings.Contains(ready, "postponed") {
		t.Errorf("Ready is %s", ready)
	}
}

func TestWhatIsNotLetGoIsManaged(t *testing.T) {
	w := newWorld(t, example(in(v1alpha1.Unmanaged, app("web"))))
	w.house()
	w.has(app("web"), "ready")
	w.journal.FailNext("patch", "apps", apierrors.NewForbidden(schema.GroupResource{Resource: "apps"}, "shop-web", fmt.Errorf("no right")))
	_, _ = w.pass()
	controllertest.Equal(t, "components", []string{"web App Managed Waiting Forbidden"}, says(w.platform()))
	writes, _ := w.pass()
	controllertest.Equal(t, "writes of the next pass", nil, writes)
	w.clock.SetTime(w.clock.Now().Add(forbiddenRetry))
	_, _ = w.pass()
	controllertest.Equal(t, "components", []string{"web App Unmanaged Available"}, says(w.platform()))
}

func TestAChildThatGoesBeforeItIsLetGoIsGone(t *testing.T) {
	w := newWorld(t, example(in(v1alpha1.Unmanaged, app("web"))))
	w.house()
	w.has(app("web"), "ready")
	w.journal.FailNext("patch", "apps", apierrors.NewNotFound(schema.GroupResource{Resource: "apps"}, "shop-web"))
	if _, err := w.pass(); err != nil {
		t.Fatal(err)
	}
	controllertest.Equal(t, "components", []string{"web App Unmanaged Absent"}, says(w.platform()))
}

func TestADeletionSaysWhatAUserMustLookAt(t *testing.T) {
	w := newWorld(t, example(database("db")))
	w.has(database("db"), "going")
	child, err := w.windlass.WindlassV1alpha1().Databases("shops").Get(t.Context(), "shop-db", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	conditions.True(&child.Status.Conditions, conditions.Degraded, "LoginRefused", "")
	if _, err := w.windlass.WindlassV1alpha1().Databases("shops").UpdateStatus(t.Context(), child, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.change(func(p *v1alpha1.Platform) { p.DeletionTimestamp = &metav1.Time{Time: time.Now()} })
	_, _ = w.pass()
	if got := condition(w.platform(), "Degraded"); !strings.HasPrefix(got, "True ComponentDegraded: Look at db. Removing components: 1 left.") {
		t.Errorf("Degraded is %s", got)
	}
}

// TestTwoThatAreRefusedUnderOneName has a component whose kind has changed.
func TestTwoThatAreRefusedUnderOneName(t *testing.T) {
	w := newWorld(t, example(in(v1alpha1.Removed, app("web"))))
	w.house()
	w.has(app("web"), "ready")
	w.has(database("web"), "ready")
	for _, resource := range []string{"apps", "databases"} {
		w.journal.FailNext("delete", resource, apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "shop-web", fmt.Errorf("no right")))
	}
	writes, _ := w.pass()
	controllertest.Equal(t, "writes", []string{"delete apps shops/shop-web", "delete databases shops/shop-web", status}, writes)
	writes, _ = w.pass()
	controllertest.Equal(t, "writes of the next pass", nil, writes)
}

func TestThePlatformSaysWhatIsWrongWithItsNamespaceAlone(t *testing.T) {
	w := newWorld(t, example())
	w.house(func(ns *metav1.PartialObjectMetadata) { ns.DeletionTimestamp = &metav1.Time{Time: time.Now()} })
	_, _ = w.pass()
	if got := condition(w.platform(), "Progressing"); !strings.HasPrefix(got, "True ComponentsNotReady: Not ready.") {
		t.Errorf("Progressing is %s", got)
	}
	if got := condition(w.platform(), "Ready"); !strings.HasPrefix(got, "False NamespaceTerminating") {
		t.Errorf("Ready is %s", got)
	}
}

func TestTheEndOfANamespaceIsNotWaitedForTwice(t *testing.T) {
	terminating := apierrors.NewForbidden(schema.GroupResource{Resource: "apps"}, "shop-web", fmt.Errorf("it goes"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	w := newWorld(t, example(app("web")))
	w.house()
	w.journal.FailNext("create", "apps", terminating)
	_, _ = w.pass()
	writes, _ := w.pass()
	controllertest.Equal(t, "the first write of the next pass", "create apps shops/shop-web", writes[0])
}
