package controller_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/conditions"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

const toyFinalizer = "toys.example.com/clean"

// epoch is the time at the start of the tests. JSON drops its fraction of a second.
var epoch = time.Date(2026, 2, 10, 20, 30, 0, 123456789, time.UTC)

// bench is a Pipeline with a server and one Toy, "a".
type bench struct {
	*toyServer
	recorder controllertest.Recorder
	clock    *clocktesting.FakeClock
	pipeline *controller.Pipeline[*Toy]
}

var theToy = keyOf("a")

func newBench(t *testing.T, kind controller.Reconciler[*Toy]) *bench {
	b := &bench{toyServer: newToyServer(t), clock: clocktesting.NewFakeClock(epoch)}
	b.pipeline = &controller.Pipeline[*Toy]{
		Kind: controller.Kind[*Toy]{
			GroupVersionKind: toyKind, Lister: b.lister, Client: b.client, Reconciler: kind, Tracker: controller.NewTracker(),
		},
		Runtime: controller.Runtime{Events: &b.recorder, Clock: b.clock},
		Store:   b.cache,
	}
	if kind, ok := kind.(*cleaner); ok {
		b.pipeline.Finalizer = controller.Finalizer[*Toy]{Name: toyFinalizer, Finalize: kind.Finalize}
	}
	b.create(newToy(theToy.Name))
	return b
}

// pass reconciles the Toy once, with a cache that is up to date.
func (b *bench) pass() (controller.Result, error) {
	b.deliver()
	return b.passAsIs()
}

// passAsIs reconciles the Toy once, with the cache as it is. It checks that the reconcile does not change
// the cached object.
func (b *bench) passAsIs() (controller.Result, error) {
	b.t.Helper()
	var before *Toy
	if toy, err := b.lister(theToy.Namespace).Get(theToy.Name); err == nil {
		before = toy.copy()
	}
	result, err := b.pipeline.Sync(context.Background(), theToy)
	if before != nil {
		after, _ := b.lister(theToy.Namespace).Get(theToy.Name)
		controllertest.Equal(b.t, "the cached object after a reconcile", before, after)
	}
	return result, err
}

// mustPass is pass for a reconcile that must succeed.
func (b *bench) mustPass() controller.Result {
	b.t.Helper()
	result, err := b.pass()
	if err != nil {
		b.t.Fatalf("reconciling: %v", err)
	}
	return result
}

// wantWrites checks the writes since the last call of takeWrites.
func (b *bench) wantWrites(want ...string) {
	b.t.Helper()
	controllertest.Equal(b.t, "writes", want, b.takeWrites())
}

func (b *bench) wantEvents(want ...string) {
	b.t.Helper()
	controllertest.Equal(b.t, "events", want, b.recorder.Events())
}

func (b *bench) wantConditions(want ...string) {
	b.t.Helper()
	controllertest.Equal(b.t, "conditions", want, controllertest.Conditions(b.get(theToy)))
}

func TestReconcileOfMissingObjectDoesNothing(t *testing.T) {
	kind := &cleaner{}
	b := newBench(t, kind)
	if result, err := b.passAsIs(); err != nil || result.RequeueAfter != 0 { // the cache is empty
		t.Errorf("ended with %v and %v, wanted nothing", result, err)
	}
	b.wantWrites()
	if kind.calls+kind.cleaned > 0 {
		t.Error("the kind was called")
	}
}

func TestPipelineForgetsDeletedObject(t *testing.T) {
	b := newBench(t, &painter{})
	b.mustPass() // the cache has not observed the write of this reconcile
	stale := b.cache.List()
	b.delete(theToy)
	b.mustPass()
	if err := b.cache.Replace(stale, "1"); err != nil {
		t.Fatal(err)
	}
	if err := b.pipeline.Tracker.Observed(theToy); err != nil {
		t.Errorf("a write to an object that is gone is waited for: %v", err)
	}
}

// failingLister is a lister that returns an error.
type failingLister struct{ err error }

func (l failingLister) Get(string) (*Toy, error) { return nil, l.err }

func TestReconcileReturnsErrorOfCache(t *testing.T) {
	b := newBench(t, &painter{})
	broken := errors.New("no such index")
	b.pipeline.Lister = func(string) controller.Lister[*Toy] { return failingLister{broken} }
	if _, err := b.passAsIs(); !errors.Is(err, broken) || !strings.Contains(err.Error(), "default/a") {
		t.Errorf("the error is %v", err)
	}
}

func TestPauseWritesOnlyConditions(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(*bench)
		ready   metav1.ConditionStatus
	}{
		"an object without a status": {func(*bench) {}, metav1.ConditionUnknown},
		"an object whose status is outdated": {
			func(b *bench) { b.mustPass(); b.edit(theToy, func(toy *Toy) { toy.Spec.Colour = "blue" }) }, metav1.ConditionTrue,
		},
		"an object that is being deleted": {func(b *bench) { b.mustPass(); b.delete(theToy) }, metav1.ConditionFalse},
		"an object that is Ready":         {func(b *bench) { b.mustPass() }, metav1.ConditionTrue},
	} {
		t.Run(name, func(t *testing.T) {
			kind := &cleaner{}
			b := newBench(t, kind)
			b.pipeline.Resync = time.Minute
			test.prepare(b)
			b.takeWrites()
			calls, observed := kind.calls, b.get(theToy).Status.ObservedGeneration
			b.edit(theToy, func(toy *Toy) { toy.Annotations = map[string]string{controller.PausedAnnotation: "true"} })
			if result := b.mustPass(); result.RequeueAfter != 0 {
				t.Errorf("the paused object is reconciled again after %s", result.RequeueAfter)
			}
			b.wantWrites("status default/a")
			paused := b.get(theToy).Status
			if !conditions.IsTrue(paused.Conditions, conditions.Paused) ||
				conditions.Find(paused.Conditions, conditions.Ready).Status != test.ready || paused.ObservedGeneration != observed {
				t.Errorf("the status of the paused object is %+v", paused)
			}
			b.mustPass()
			b.wantWrites()
			if kind.calls != calls || kind.cleaned > 0 {
				t.Error("the Reconciler was called for a paused object")
			}

			b.edit(theToy, func(toy *Toy) { toy.Annotations[controller.PausedAnnotation] = "false" })
			b.mustPass()
			if len(b.takeWrites()) == 0 {
				t.Error("the object is not reconciled after it was paused")
			}
			if toy := b.get(theToy); toy != nil && conditions.Find(toy.Status.Conditions, conditions.Paused) != nil {
				t.Errorf("the condition Paused stays: %+v", toy.Status)
			}
		})
	}
}

func TestReconcileWaitsUntilCacheHasOwnWrites(t *testing.T) {
	kind := &painter{}
	b := newBench(t, kind)
	b.mustPass()
	b.wantWrites("status default/a")

	for range 3 {
		if _, err := b.passAsIs(); err == nil {
			t.Error("the kind is reconciled with an outdated cache")
		}
	}
	b.wantWrites()
	b.wantEvents("Normal Painted default/a: It is red.")
	if kind.calls != 1 {
		t.Errorf("the kind was called %d times, wanted 1", kind.calls)
	}

	b.mustPass()
	if kind.calls != 2 {
		t.Error("the kind was not called when the cache had caught up")
	}
}

// late is a cache that receives an event in each call of LastStoreSyncResourceVersion.
type late struct {
	controller.Store
	comes func()
}

func (l *late) LastStoreSyncResourceVersion() string {
	l.comes()
	return l.Store.LastStoreSyncResourceVersion()
}

func TestReconcileReadsObjectAfterCacheCaughtUp(t *testing.T) {
	b := newBench(t, &painter{})
	cache := &late{Store: b.cache, comes: func() {}}
	b.pipeline.Store = cache
	b.mustPass()
	b.wantWrites("status default/a")

	cache.comes = b.deliver
	if _, err := b.pipeline.Sync(t.Context(), theToy); err != nil {
		t.Fatal(err)
	}
	b.wantWrites()
}

func TestPeriodicCheck(t *testing.T) {
	const period = 10 * time.Minute
	kind := &painter{}
	b := newBench(t, kind)
	b.pipeline.Resync = period
	shortest, longest := 2*period, time.Duration(0)
	for range 1000 {
		after := b.mustPass().RequeueAfter
		shortest, longest = min(shortest, after), max(longest, after)
	}
	if shortest < period*90/100 || shortest > period*95/100 || longest > period*110/100 || longest < period*105/100 {
		t.Errorf("checks come after %s to %s, wanted %s ± 10 %%", shortest, longest, period)
	}

	kind.reconcile = func(context.Context, *Toy) (controller.Result, error) {
		return controller.Result{RequeueAfter: time.Hour}, nil
	}
	if after := b.mustPass().RequeueAfter; after != time.Hour {
		t.Errorf("a kind that asked for 1 h is called after %s", after)
	}
	kind.reconcile = fails(errors.New("broken"))
	if result, err := b.pass(); err == nil || result.RequeueAfter != 0 {
		t.Errorf("a failed reconcile returns RequeueAfter %s", result.RequeueAfter)
	}
}

func TestReconcileReturnsPanicAsError(t *testing.T) {
	b := newBench(t, &painter{reconcile: func(context.Context, *Toy) (controller.Result, error) { return panics() }})
	if _, err := b.pass(); err == nil {
		t.Fatal("a panic was lost")
	}
	b.wantWrites("status default/a")
	b.wantConditions(
		"Degraded=False AsExpected",
		"Ready=False Panic: panic: runtime error: index out of range [3] with length 0",
	)
	if _, err := b.pass(); err == nil {
		t.Error("the second panic was lost")
	}
	b.wantWrites()
}
