package controller_test

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/conditions"
)

// step is a Reconcile or Finalize function.
type step = func(context.Context, *Toy) (controller.Result, error)

// sets returns a step that sets one condition.
func sets(kind string, status metav1.ConditionStatus, reason, message string) step {
	return func(_ context.Context, toy *Toy) (controller.Result, error) {
		conditions.Set(&toy.Status.Conditions, kind, status, reason, message)
		return controller.Result{}, nil
	}
}

func TestStatusIsWrittenOnlyIfItChanges(t *testing.T) {
	broken := errors.New("broken")
	for name, reconcile := range map[string]step{
		"after a reconcile without an error":      paint,
		"after an error":                          fails(broken),
		"after Stalled":                           fails(controller.Stalled(broken, time.Minute)),
		"after a panic":                           func(context.Context, *Toy) (controller.Result, error) { return panics() },
		"if the message of an error is not UTF-8": fails(errors.New("server: Fehler \xfcber Fehler")),
		"if the reason of an error is not an identifier": fails(&apierrors.StatusError{ErrStatus: metav1.Status{
			Code: 403, Reason: "toys must be green", Message: "admission webhook denied the request",
		}}),
		"if a condition is changed and changed back": func(ctx context.Context, toy *Toy) (controller.Result, error) {
			conditions.False(&toy.Status.Conditions, conditions.Ready, "Painting", "It is wet.")
			conditions.False(&toy.Status.Conditions, conditions.Progressing, "Painting", "It is wet.")
			return paint(ctx, toy)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, &painter{reconcile: reconcile})
			for range 100 {
				_, _ = b.pass()
				b.clock.SetTime(b.clock.Now().Add(time.Minute))
			}
			if writes, events := len(b.takeWrites()), len(b.recorder.Events()); writes != 1 || events != 1 {
				t.Errorf("%d writes and %d events for 100 passes that are all the same, wanted 1 of each", writes, events)
			}
		})
	}
}

func TestStatusWriteFails(t *testing.T) {
	rejected := apierrors.NewInternalError(errors.New("etcd is full"))
	stuck := errors.New("not ours")
	for name, test := range map[string]struct {
		reconcile step
		arrange   func(b *bench)
		want      func(error) bool
		stored    []string // conditions after one more reconcile
	}{
		"is the error of a reconcile without an error": {
			paint, func(b *bench) { b.rejection = rejected }, func(err error) bool { return errors.Is(err, rejected) },
			[]string{"Degraded=False AsExpected", "Progressing=False Painted: It is red.", "Ready=True Painted: It is red."},
		},
		"is the error of a reconcile that would not be retried": {
			fails(controller.Stalled(stuck, 0)), func(b *bench) { b.rejection = rejected },
			func(err error) bool { return errors.Is(err, rejected) && !errors.Is(err, stuck) },
			[]string{
				"Degraded=True ReconcileError: not ours", "Progressing=False ReconcileError: not ours",
				"Ready=False ReconcileError: not ours", "Stalled=True ReconcileError: not ours",
			},
		},
		"is the error of a reconcile that would be retried late": {
			fails(controller.WaitFor("NoBrush", "There is no brush.", time.Hour)), func(b *bench) { b.rejection = rejected },
			func(err error) bool { return errors.Is(err, rejected) },
			[]string{"Degraded=False AsExpected", "Ready=False NoBrush: There is no brush."},
		},
		"does not replace an error that is retried with a backoff": {
			fails(stuck), func(b *bench) { b.rejection = rejected }, func(err error) bool { return errors.Is(err, stuck) },
			[]string{"Degraded=False AsExpected", "Ready=False ReconcileError: not ours"},
		},
		"is a conflict if the object has been modified": {
			paint, func(b *bench) { b.edit(theToy, func(toy *Toy) { toy.Spec.Colour = "blue" }) }, apierrors.IsConflict,
			[]string{"Degraded=False AsExpected", "Progressing=False Painted: It is blue.", "Ready=True Painted: It is blue."},
		},
		"is retried if the response was lost": {
			paint, func(b *bench) { b.lost = context.DeadlineExceeded },
			func(err error) bool { return errors.Is(err, context.DeadlineExceeded) },
			[]string{"Degraded=False AsExpected", "Progressing=False Painted: It is red.", "Ready=True Painted: It is red."},
		},
		// An API server may return a wrong 404, which no event follows.
		"awaits the event if the object is gone": {paint, func(b *bench) { b.delete(theToy) }, awaitsDeletion, nil},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, &painter{reconcile: test.reconcile})
			b.deliver()
			test.arrange(b)
			if _, err := b.passAsIs(); !test.want(err) {
				t.Errorf("the error is %v", err)
			}
			b.wantEvents() // the engine cannot know that the status was stored
			if _, _ = b.pass(); test.stored != nil {
				b.wantConditions(test.stored...)
			}
		})
	}
}

func TestStatusRecordsObservedGeneration(t *testing.T) {
	kind := &painter{}
	b := newBench(t, kind)
	for _, colour := range []string{"red", "blue", "green"} {
		b.edit(theToy, func(toy *Toy) { toy.Spec.Colour = colour })
		b.mustPass()
		toy := b.get(theToy)
		if toy.Status.ObservedGeneration != toy.Generation {
			t.Errorf("observedGeneration is %d, generation %d", toy.Status.ObservedGeneration, toy.Generation)
		}
		for _, c := range toy.Status.Conditions {
			if c.ObservedGeneration != toy.Generation {
				t.Errorf("condition %s is of generation %d, wanted %d", c.Type, c.ObservedGeneration, toy.Generation)
			}
		}
	}
}

func TestTransitionTimesMoveOnlyOnTransitions(t *testing.T) {
	kind := &painter{}
	b := newBench(t, kind)
	for _, test := range []struct {
		name      string
		reconcile step
		since     int // the last transition of Ready, in minutes after epoch
	}{
		{"0: it is new", sets(conditions.Ready, metav1.ConditionFalse, "Painting", "It is wet."), 0},
		{"1: another reason", sets(conditions.Ready, metav1.ConditionFalse, "Drying", "It is wet."), 0},
		{"2: a transition", sets(conditions.Ready, metav1.ConditionTrue, "Painted", ""), 2},
		{"3: False on the way, but True again at the end", func(ctx context.Context, toy *Toy) (controller.Result, error) {
			conditions.False(&toy.Status.Conditions, conditions.Ready, "Painting", "It is wet.")
			return paint(ctx, toy)
		}, 2},
	} {
		kind.reconcile = test.reconcile
		b.edit(theToy, func(*Toy) {})
		b.mustPass()
		want := metav1.NewTime(epoch.Add(time.Duration(test.since) * time.Minute).Truncate(time.Second))
		if got := conditions.Find(b.get(theToy).Status.Conditions, conditions.Ready).LastTransitionTime; !got.Equal(&want) {
			t.Errorf("%s: Ready is from %s, wanted %s", test.name, got, want)
		}
		b.clock.SetTime(b.clock.Now().Add(time.Minute))
	}
}

func TestEventsMarkTransitionsOfReady(t *testing.T) {
	broken := errors.New("broken")
	ready := func(reason, message string) step {
		return sets(conditions.Ready, metav1.ConditionTrue, reason, message)
	}
	degraded := func(reason, message string) step {
		return func(_ context.Context, toy *Toy) (controller.Result, error) {
			conditions.True(&toy.Status.Conditions, conditions.Ready, "Paint", "a")
			conditions.True(&toy.Status.Conditions, conditions.Degraded, reason, message)
			return controller.Result{}, nil
		}
	}
	for name, test := range map[string]struct {
		passes []step
		want   []string
	}{
		"the first status records an Event": {[]step{paint}, []string{"Normal Painted default/a: It is red."}},
		"a repeated status records no further Event": {
			[]step{paint, paint, paint}, []string{"Normal Painted default/a: It is red."},
		},
		"another message alone records no Event": {
			[]step{ready("Painted", "a"), ready("Painted", "b")}, []string{"Normal Painted default/a: a"},
		},
		"another reason records an Event": {
			[]step{ready("Painted", "a"), ready("Dry", "b")}, []string{"Normal Painted default/a: a", "Normal Dry default/a: b"},
		},
		"another status with the same reason records an Event": {
			[]step{ready("Paint", "a"), sets(conditions.Ready, metav1.ConditionFalse, "Paint", "b")},
			[]string{"Normal Paint default/a: a", "Normal Paint default/a: b"},
		},
		"an error and its end record an Event each": {
			[]step{fails(broken), fails(broken), paint}, []string{
				"Warning ReconcileError default/a: broken", "Normal Painted default/a: It is red.",
			},
		},
		"WaitFor with Warn records a Warning": {
			[]step{
				fails(controller.Warn(controller.WaitFor("NoBrush", "None.", time.Minute))),
			}, []string{"Warning NoBrush default/a: None."},
		},
		"an object that becomes Degraded while Ready keeps its reason": {
			[]step{
				ready("Paint", "a"), degraded("Peeling", "It peels."), degraded("Peeling", "It peels more."),
				degraded("Rust", "It rusts."), ready("Paint", "a"),
			},
			[]string{"Normal Paint default/a: a", "Warning Peeling default/a: It peels.", "Warning Rust default/a: It rusts."},
		},
		"a conflict records no Event": {
			[]step{paint, fails(apierrors.NewConflict(toyResource, "b", broken)), paint}, []string{
				"Normal Painted default/a: It is red.",
			},
		},
		"a kind that sets Degraded records a Warning": {
			[]step{func(_ context.Context, toy *Toy) (controller.Result, error) {
				conditions.True(&toy.Status.Conditions, conditions.Degraded, "Peeling", "")
				conditions.False(&toy.Status.Conditions, conditions.Ready, "Peeling", "It peels.")
				return controller.Result{}, nil
			}}, []string{"Warning Peeling default/a: It peels."},
		},
	} {
		t.Run(name, func(t *testing.T) {
			kind := &painter{}
			b := newBench(t, kind)
			for _, pass := range test.passes {
				kind.reconcile = pass
				_, _ = b.pass()
			}
			b.wantEvents(test.want...)
		})
	}
}
