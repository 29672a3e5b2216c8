package controller_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

func TestFinalizerIsAddedBeforeFirstReconcile(t *testing.T) {
	kind := &cleaner{}
	b := newBench(t, kind)
	b.edit(theToy, func(toy *Toy) { toy.Finalizers = []string{"somebody/else"} })
	want := []string{"somebody/else", toyFinalizer}
	kind.reconcile = func(ctx context.Context, toy *Toy) (controller.Result, error) {
		if !slices.Equal(toy.Finalizers, want) || !slices.Equal(b.get(theToy).Finalizers, want) {
			t.Errorf("Reconcile is called with finalizers %v, while %v are stored", toy.Finalizers, b.get(theToy).Finalizers)
		}
		return paint(ctx, toy)
	}
	b.mustPass()
	b.wantWrites("finalizers default/a [somebody/else "+toyFinalizer+"]", "status default/a")
	b.mustPass()
	b.wantWrites()
}

func TestFinalizerIsPresentWhileItIsNeeded(t *testing.T) {
	b := newBench(t, &cleaner{})
	needed := false
	b.pipeline.Finalizer.Needed = func(*Toy) bool { return needed }
	b.mustPass()
	b.wantWrites("status default/a")
	needed = true
	b.mustPass()
	b.wantWrites("finalizers default/a [" + toyFinalizer + "]")
	needed = false
	b.mustPass()
	b.wantWrites("finalizers default/a []")
}

func TestAddingFinalizerFails(t *testing.T) {
	rejected := apierrors.NewForbidden(toyResource, "a", errors.New("no permission"))
	for name, test := range map[string]struct {
		behindTheCache func(b *bench)
		want           func(error) bool
		more           []string // writes after that of the finalizer
	}{
		"is a conflict if the object has been modified": {
			func(b *bench) { b.edit(theToy, func(toy *Toy) { toy.Spec.Colour = "blue" }) }, apierrors.IsConflict, nil,
		},
		"is a conflict if the object has been created again": {
			func(b *bench) { b.delete(theToy); b.create(newToy(theToy.Name)) }, apierrors.IsConflict, nil,
		},
		"waits for the event if the object is gone": {
			func(b *bench) { b.delete(theToy) }, awaitsDeletion, nil,
		},
		"is an error, which the status has, if the API server rejects it": {
			func(b *bench) { b.rejection = rejected }, func(err error) bool { return errors.Is(err, rejected) },
			[]string{"status default/a"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			kind := &cleaner{}
			b := newBench(t, kind)
			b.deliver()
			test.behindTheCache(b)
			if _, err := b.passAsIs(); !test.want(err) {
				t.Errorf("the error is %v", err)
			}
			b.wantWrites(append([]string{"finalizers default/a [" + toyFinalizer + "]"}, test.more...)...)
			if kind.calls > 0 {
				t.Error("Reconcile was called without a finalizer")
			}
		})
	}
}

// awaitsDeletion reports whether err is ErrDeletionNotObserved.
func awaitsDeletion(err error) bool { return errors.Is(err, controller.ErrDeletionNotObserved) }

func TestReconcileWaitsUntilCacheHasFinalizer(t *testing.T) {
	kind := &cleaner{
		painter: painter{reconcile: fails(apierrors.NewConflict(toyResource, "child", errors.New("it was modified")))},
	}
	b := newBench(t, kind)
	b.deliver()
	for range 2 {
		if _, err := b.passAsIs(); err == nil {
			t.Error("the reconcile succeeded")
		}
	}
	b.wantWrites("finalizers default/a [" + toyFinalizer + "]")
	if kind.calls != 1 {
		t.Errorf("Reconcile was called %d times, wanted 1", kind.calls)
	}
}

func TestReconcileRestoresRemovedFinalizer(t *testing.T) {
	b := newBench(t, &cleaner{})
	b.mustPass()
	b.mustPass()
	b.takeWrites()
	b.edit(theToy, func(toy *Toy) { toy.Finalizers, toy.Generation = nil, toy.Generation-1 })
	b.mustPass()
	b.wantWrites("finalizers default/a [" + toyFinalizer + "]")
}

func TestPipelineIgnoresDeletedObjectWithoutFinalizerOfKind(t *testing.T) {
	kind := &cleaner{}
	for name, b := range map[string]*bench{
		"of a kind with another finalizer": newBench(t, kind), "of a kind without a finalizer": newBench(t, &painter{}),
	} {
		b.edit(theToy, func(toy *Toy) { toy.Finalizers = []string{"somebody/else"} })
		b.delete(theToy)
		b.mustPass()
		controllertest.Equal(t, "writes for an object "+name, nil, b.takeWrites())
	}
	if kind.calls+kind.cleaned > 0 {
		t.Error("the kind was called")
	}
}

// condemned returns a bench whose Toy has the finalizer of the kind and others, and is being deleted.
func condemned(t *testing.T, kind *cleaner, others ...string) *bench {
	b := newBench(t, kind)
	b.edit(theToy, func(toy *Toy) { toy.Finalizers = others })
	b.mustPass()
	b.delete(theToy)
	b.takeWrites()
	kind.calls = 0
	return b
}

func TestSuccessfulFinalizeRemovesFinalizer(t *testing.T) {
	kind := &cleaner{}
	b := condemned(t, kind)
	b.mustPass()
	if b.get(theToy) != nil {
		t.Errorf("the object is still there, with finalizers %v", b.get(theToy).Finalizers)
	}
	if kind.cleaned != 1 || kind.calls != 0 {
		t.Errorf("Finalize was called %d times, wanted 1; Reconcile %d times, wanted 0", kind.cleaned, kind.calls)
	}
	b.takeWrites()
	b.mustPass()
	b.wantWrites()
}

func TestSuccessfulFinalizeKeepsOtherFinalizers(t *testing.T) {
	b := condemned(t, &cleaner{}, "somebody/else")
	b.mustPass()
	if got := b.get(theToy).Finalizers; !slices.Equal(got, []string{"somebody/else"}) {
		t.Errorf("the finalizers are %v", got)
	}
	b.takeWrites()
	b.mustPass()
	b.wantWrites()
}

func TestUnfinishedFinalizeKeepsFinalizer(t *testing.T) {
	away := errors.New("no route to host")
	for name, test := range map[string]struct {
		result     controller.Result
		err        error
		conditions []string // nil if the status is not written
	}{
		"after an error": {
			err: controller.WithReason("ServerAway", away),
			conditions: []string{
				"Degraded=True ServerAway: no route to host", "Progressing=True ServerAway: no route to host",
				"Ready=False ServerAway: no route to host",
			},
		},
		"while it waits for a problem that a user has to solve": {
			err: controller.Warn(controller.WaitFor("ServerAway", "The server does not answer.", time.Minute)),
			conditions: []string{
				"Degraded=True ServerAway: The server does not answer.", "Progressing=True ServerAway: The server does not answer.",
				"Ready=False ServerAway: The server does not answer.",
			},
		},
		"while it waits, for example for the deletion of children": {
			err: controller.WaitFor("RemovingChildren", "There are two more.", time.Minute),
			conditions: []string{
				"Degraded=False AsExpected", "Progressing=True RemovingChildren: There are two more.",
				"Ready=False RemovingChildren: There are two more.",
			},
		},
		"after a conflict": {err: apierrors.NewConflict(toyResource, "child", errors.New("it was modified"))},
		"while the cache is about to receive a deletion": {err: controller.ErrDeletionNotObserved},
		"after Stalled": {
			err: controller.Stalled(errors.New("not ours"), 0),
			conditions: []string{
				"Degraded=True ReconcileError: not ours", "Progressing=False ReconcileError: not ours",
				"Ready=False ReconcileError: not ours", "Stalled=True ReconcileError: not ours",
			},
		},
		"after a RequeueAfter": {
			result: controller.Result{RequeueAfter: time.Second},
			conditions: []string{
				"Degraded=False AsExpected", "Progressing=False Painted: It is red.", "Ready=True Painted: It is red.",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			kind := &cleaner{finalize: func(context.Context, *Toy) (controller.Result, error) { return test.result, test.err }}
			b := condemned(t, kind)
			b.pipeline.Resync = time.Hour
			result, err := b.pass()
			if result != test.result || !errors.Is(err, test.err) {
				t.Errorf("ended with %v and %v", result, err)
			}
			if test.conditions == nil {
				b.wantWrites()
			} else {
				b.wantWrites("status default/a")
				b.wantConditions(test.conditions...)
			}

			kind.finalize = nil
			b.takeWrites()
			b.mustPass()
			b.wantWrites("finalizers default/a []") // and no write of the status of the removed object
			if b.get(theToy) != nil {
				t.Error("the object still exists after Finalize succeeded")
			}
		})
	}
}

func TestRemovingFinalizerFails(t *testing.T) {
	rejected := apierrors.NewInternalError(errors.New("etcd is full"))
	const message = "FinalizerNotRemoved: Removing the finalizer from Toy default/a, which is the last step of its " +
		"deletion, failed: Internal error occurred: etcd is full. The operator retries. If a webhook or policy rejects " +
		"the request, change the webhook or policy to accept requests of the operator."
	for name, test := range map[string]struct {
		meanwhile  func(b *bench)
		want       func(error) bool
		conditions []string // nil if the status is not written
	}{
		"waits for the event if the object is gone": {
			func(b *bench) {
				b.edit(theToy, func(toy *Toy) { toy.Finalizers = nil })
				b.delete(theToy)
			},
			awaitsDeletion, nil,
		},
		"is a conflict if the object has been modified": {
			func(b *bench) { b.edit(theToy, func(toy *Toy) { toy.Spec.Colour = "blue" }) }, apierrors.IsConflict, nil,
		},
		"is an error if the API server rejects it": {
			func(b *bench) { b.rejection = rejected }, func(err error) bool { return errors.Is(err, rejected) },
			[]string{"Degraded=True " + message, "Progressing=True " + message, "Ready=False " + message},
		},
	} {
		t.Run(name, func(t *testing.T) {
			kind := &cleaner{finalize: func(context.Context, *Toy) (controller.Result, error) {
				return controller.Result{RequeueAfter: time.Second}, nil
			}}
			b := condemned(t, kind)
			b.mustPass() // later reconciles do not change the status
			b.takeWrites()
			kind.finalize = func(context.Context, *Toy) (controller.Result, error) {
				test.meanwhile(b)
				return controller.Result{}, nil
			}
			if _, err := b.pass(); !test.want(err) {
				t.Errorf("the error is %v", err)
			}
			if test.conditions == nil {
				b.wantWrites("finalizers default/a []")
				return
			}
			b.wantWrites("finalizers default/a []", "status default/a")
			b.wantConditions(test.conditions...)
		})
	}
}

// The cache still has the object, in the version that the response to the last patch had.
func TestFinalizeIsNotRepeatedWhileCacheIsBehind(t *testing.T) {
	kind := &cleaner{}
	b := condemned(t, kind)
	b.deliver()
	for range 2 {
		if _, err := b.passAsIs(); err != nil {
			t.Fatal(err)
		}
	}
	b.wantWrites("finalizers default/a []")
	controllertest.Equal(t, "calls of Finalize", 1, kind.cleaned)
	b.mustPass() // observes the deletion; the next object with this name is a different one
	b.create(newToy(theToy.Name))
	b.mustPass()
	b.wantWrites("finalizers default/a ["+toyFinalizer+"]", "status default/a")
}
