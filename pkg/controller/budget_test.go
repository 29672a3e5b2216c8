package controller_test

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

// repaint returns a kind in a hot loop: each reconcile writes another status and requeues.
func repaint() *painter {
	kind := &painter{}
	kind.reconcile = func(_ context.Context, toy *Toy) (controller.Result, error) {
		toy.Status.Colour = strconv.Itoa(kind.calls)
		return controller.Result{RequeueAfter: time.Millisecond}, nil
	}
	return kind
}

func TestControllerThrottlesObjectWrittenInLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatched(t, true, repaint())
		w.runFor(time.Hour)
		if n := len(w.takeWrites()); n < 3600 || n > 3600+300 {
			t.Errorf("%d status writes in an hour, wanted one a second and a burst", n)
		}
	})
}

func TestControllerDoesNotThrottleReconcilesWithoutWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kind := &painter{}
		kind.reconcile = func(context.Context, *Toy) (controller.Result, error) {
			return controller.Result{RequeueAfter: time.Millisecond}, nil
		}
		newWatched(t, true, kind).runFor(10 * time.Second)
		if kind.calls < 9000 {
			t.Errorf("%d reconciles in 10000 ms", kind.calls)
		}
	})
}

func TestExhaustedBudgetIsQuietAndDoesNotDelayFinalize(t *testing.T) {
	kind := &cleaner{}
	kind.reconcile = func(_ context.Context, toy *Toy) (controller.Result, error) {
		toy.Status.Colour = strconv.Itoa(kind.calls)
		return controller.Result{}, nil
	}
	b := newBench(t, kind)
	for range 1000 {
		_, _ = b.pass() // the last reconciles are postponed
	}
	b.takeWrites()
	before := b.get(theToy)
	if _, err := b.pass(); err == nil || !controller.Quiet(err) {
		t.Errorf("it ended with %v", err)
	}
	b.wantWrites()
	controllertest.Equal(t, "the object", before, b.get(theToy))
	b.delete(theToy)
	b.mustPass()
	controllertest.Equal(t, "calls of Finalize", 1, kind.cleaned)
}
