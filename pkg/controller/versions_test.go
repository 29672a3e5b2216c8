package controller_test

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

// matcher is a kind that reads one object besides the Toy: a tin of paint.
type matcher struct {
	painter
	tin     *metav1.ObjectMeta
	failure error // the error of reading the tin
	needs   bool  // whether a missing tin has to be created
}

func (m *matcher) Inputs(_ *Toy, seen *controller.Versions) {
	add := seen.Add
	if m.needs {
		add = seen.AddWanted
	}
	if m.tin == nil && m.failure == nil {
		add(nil, nil)
		return
	}
	add(m.tin, m.failure)
}

func tin(uid, version string) *metav1.ObjectMeta {
	return &metav1.ObjectMeta{Name: "tin", UID: types.UID("tin-" + uid), ResourceVersion: version}
}

func TestReconcileIsSkippedUnlessInputsChange(t *testing.T) {
	for name, c := range map[string]struct {
		last   func(context.Context, *Toy) (controller.Result, error) // the Reconcile that the kind has before the change
		change func(*bench, *matcher)
		again  bool
	}{
		"nothing has changed": {change: func(*bench, *matcher) {}},
		"the object has":      {change: func(b *bench, _ *matcher) { b.edit(theToy, func(toy *Toy) { toy.Spec.Colour = "blue" }) }, again: true},
		"its metadata have": {change: func(b *bench, _ *matcher) {
			b.edit(theToy, func(toy *Toy) { toy.Labels = map[string]string{"a": "b"} })
		}, again: true},
		"what it reads has":                   {change: func(_ *bench, m *matcher) { m.tin = tin("a", "8") }, again: true},
		"what it reads is another":            {change: func(_ *bench, m *matcher) { m.tin = tin("b", "7") }, again: true},
		"what it reads is gone":               {change: func(_ *bench, m *matcher) { m.tin = nil }, again: true},
		"what it reads has no version":        {change: func(_ *bench, m *matcher) { m.tin = tin("a", "") }, again: true},
		"it cannot be read":                   {change: func(_ *bench, m *matcher) { m.failure = errors.New("no") }, again: true},
		"the object was made again":           {change: func(b *bench, _ *matcher) { b.delete(theToy); b.create(newToy(theToy.Name)) }, again: true},
		"the object was not there for a pass": {change: func(b *bench, _ *matcher) { remake(b) }, again: true},
		"the pass before had failed":          {last: fails(errors.New("no")), change: func(*bench, *matcher) {}, again: true},
		"the pass before was to be repeated": {last: func(context.Context, *Toy) (controller.Result, error) {
			return controller.Result{RequeueAfter: time.Minute}, nil
		}, change: func(*bench, *matcher) {}, again: true},
	} {
		t.Run(name, func(t *testing.T) {
			kind := &matcher{painter: painter{reconcile: c.last}, tin: tin("a", "7")}
			b := newBench(t, kind)
			for range 2 { // the first reconcile writes the status
				_, _ = b.pass()
			}
			c.change(b, kind)
			before := kind.calls
			_, _ = b.pass()
			controllertest.Equal(t, "is repeated", c.again, kind.calls > before)
		})
	}
}

// remake removes the Toy from the cache for one reconcile, and then restores it unchanged.
func remake(b *bench) {
	toys := b.cache.List()
	if err := b.cache.Replace(nil, "9"); err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.passAsIs(); err != nil {
		b.t.Fatal(err)
	}
	if err := b.cache.Replace(toys, "9"); err != nil {
		b.t.Fatal(err)
	}
}

// The reconcile creates a missing tin. The tin is deleted again before the cache has observed it, so the
// inputs of the next reconcile are the same.
func TestReconcileThatWritesIsRepeated(t *testing.T) {
	kind := &matcher{}
	b := newBench(t, kind)
	for range 2 {
		b.mustPass()
	}
	controllertest.Equal(t, "passes", 2, kind.calls)
	kind.tin = tin("a", "7")
	b.mustPass() // finds a tin that it did not create
	kind.tin, kind.reconcile = nil, func(ctx context.Context, toy *Toy) (controller.Result, error) {
		b.pipeline.Tracker.Sends(theToy) // creates a tin
		return paint(ctx, toy)
	}
	b.mustPass()
	b.mustPass() // the tin is deleted before the cache has it
	controllertest.Equal(t, "passes", 5, kind.calls)
}

// The tin appears during a reconcile, and is deleted again before the next reconcile.
func TestReconcileIsRepeatedWhileInputIsMissing(t *testing.T) {
	kind := &matcher{needs: true, tin: tin("a", "7")}
	b := newBench(t, kind)
	b.mustPass() // writes the status
	kind.tin, kind.reconcile = nil, func(ctx context.Context, toy *Toy) (controller.Result, error) {
		kind.tin = tin("b", "8")
		return paint(ctx, toy)
	}
	b.mustPass()
	kind.tin = nil
	b.mustPass()
	controllertest.Equal(t, "passes", 3, kind.calls)
}

func TestReconcileIsRepeatedAfterFailedStatusWrite(t *testing.T) {
	kind := &matcher{tin: tin("a", "7")}
	b := newBench(t, kind)
	b.refusal = errors.New("no")
	if _, err := b.pass(); err == nil {
		t.Fatal("nobody was told")
	}
	b.mustPass()
	controllertest.Equal(t, "passes", 2, kind.calls)
}

func TestSkippedReconcileSchedulesNextCheck(t *testing.T) {
	b := newBench(t, &matcher{tin: tin("a", "7")})
	b.pipeline.RecheckAfter = time.Minute
	for range 3 {
		if result := b.mustPass(); !result.Check || result.RequeueAfter < 54*time.Second || result.RequeueAfter > 66*time.Second {
			t.Errorf("the next check is %v", result)
		}
	}
}

func TestKindWithoutInputsIsReconciledEachTime(t *testing.T) {
	kind := &painter{}
	b := newBench(t, kind)
	for range 3 {
		b.mustPass()
	}
	controllertest.Equal(t, "passes", 3, kind.calls)
}
