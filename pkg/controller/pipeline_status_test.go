package controller_test

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/conditions"
)

// reasonPattern is the pattern of reasons in metav1.Condition.
var reasonPattern = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)

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
		"after a clean pass": paint,
		"after an error":     fails(broken),
		"after a wait":       fails(controller.WaitFor("NoBrush", "There is no brush.", time.Minute)),
		"after Stalled":      fails(controller.Stalled(broken, time.Minute)),
		"after Invalid":      fails(apierrors.NewInvalid(toyKind.GroupKind(), "child", nil)),
		"after a panic":      func(context.Context, *Toy) (controller.Result, error) { return panics() },
		"if it is stuck and has more conditions than others": func(_ context.Context, toy *Toy) (controller.Result, error) {
			conditions.True(&toy.Status.Conditions, "Painted", "Once", "")
			return controller.Result{}, controller.Stalled(broken, 0)
		},
		"if its message is no UTF-8": fails(errors.New("server: Fehler \xfcber Fehler")),
		"if the reason of its error is no identifier": fails(&apierrors.StatusError{ErrStatus: metav1.Status{
			Code: 403, Reason: "toys must be green", Message: "admission webhook denied the request",
		}}),
		"if it times something": func(ctx context.Context, toy *Toy) (controller.Result, error) {
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

func TestStatusWriteChangesOnlyStatus(t *testing.T) {
	b := newBench(t, &painter{})
	before := b.get(theToy)
	b.mustPass()
	after := b.get(theToy)
	after.Status, after.ResourceVersion = before.Status, before.ResourceVersion
	if after.Spec != before.Spec || after.Generation != before.Generation {
		t.Errorf("the object was %v and is %v", before, after)
	}
}

func TestStatusWriteFails(t *testing.T) {
	refused := apierrors.NewInternalError(errors.New("etcd is full"))
	stuck := errors.New("not ours")
	for name, test := range map[string]struct {
		reconcile step
		arrange   func(b *bench)
		want      func(error) bool
		stored    []string // conditions after one more reconcile
	}{
		"is the error of a clean pass": {
			paint, func(b *bench) { b.refusal = refused }, func(err error) bool { return errors.Is(err, refused) },
			[]string{"Degraded=False AsExpected", "Progressing=False Painted: It is red.", "Ready=True Painted: It is red."},
		},
		"is the error of a pass that is not tried again": {
			fails(controller.Stalled(stuck, 0)), func(b *bench) { b.refusal = refused },
			func(err error) bool { return errors.Is(err, refused) && !errors.Is(err, stuck) },
			[]string{
				"Degraded=True ReconcileError: not ours", "Progressing=False ReconcileError: not ours",
				"Ready=False ReconcileError: not ours", "Stalled=True ReconcileError: not ours",
			},
		},
		"is the error of a pass that is tried again late": {
			fails(controller.WaitFor("NoBrush", "There is no brush.", time.Hour)), func(b *bench) { b.refusal = refused },
			func(err error) bool { return errors.Is(err, refused) },
			[]string{"Degraded=False AsExpected", "Ready=False NoBrush: There is no brush."},
		},
		"leaves the error of a pass that is tried again": {
			fails(stuck), func(b *bench) { b.refusal = refused }, func(err error) bool { return errors.Is(err, stuck) },
			[]string{"Degraded=False AsExpected", "Ready=False ReconcileError: not ours"},
		},
		"is a conflict if the object has been modified": {
			paint, func(b *bench) { b.edit(theToy, func(toy *Toy) { toy.Spec.Colour = "blue" }) }, apierrors.IsConflict,
			[]string{"Degraded=False AsExpected", "Progressing=False Painted: It is blue.", "Ready=True Painted: It is blue."},
		},
		"is tried again if the answer was lost": {
			paint, func(b *bench) { b.lost = context.DeadlineExceeded },
			func(err error) bool { return errors.Is(err, context.DeadlineExceeded) },
			[]string{"Degraded=False AsExpected", "Progressing=False Painted: It is red.", "Ready=True Painted: It is red."},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, &painter{reconcile: test.reconcile})
			b.deliver()
			test.arrange(b)
			if _, err := b.passAsIs(); !test.want(err) {
				t.Errorf("the error is %v", err)
			}
			b.wantEvents() // the engine cannot know that the status was stored
			_, _ = b.pass()
			b.wantConditions(test.stored...)
		})
	}
}

// An API server may return a wrong 404. No event follows that response, so the status is written only if the
// reconcile is repeated.
func TestStatusWriteOfDeletedObjectAwaitsEvent(t *testing.T) {
	kind := &painter{}
	b := newBench(t, kind)
	kind.reconcile = func(ctx context.Context, toy *Toy) (controller.Result, error) {
		b.delete(theToy)
		return paint(ctx, toy)
	}
	if _, err := b.pass(); !awaitsDeletion(err) {
		t.Errorf("the error is %v", err)
	}
	b.wantWrites("status default/a")
	b.wantEvents()
}

func TestStatusIsWrittenOnceIfResponseIsLost(t *testing.T) {
	b := newBench(t, &painter{})
	b.lost = context.DeadlineExceeded
	if _, err := b.pass(); err == nil {
		t.Fatal("a reconcile without a response succeeded")
	}
	b.mustPass()
	b.wantWrites("status default/a")
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

// A user edits the object during a reconcile that finds it ready.
func TestReadyIsNotTrueForUnobservedGeneration(t *testing.T) {
	kind := &painter{}
	b := newBench(t, kind)
	kind.reconcile = func(ctx context.Context, toy *Toy) (controller.Result, error) {
		result, err := paint(ctx, toy)
		b.edit(theToy, func(toy *Toy) { toy.Spec.Colour = "blue" })
		return result, err
	}
	if _, err := b.pass(); !apierrors.IsConflict(err) {
		t.Errorf("the error is %v", err)
	}
	b.wantConditions()
	kind.reconcile = nil
	b.mustPass()
	b.wantConditions("Degraded=False AsExpected", "Progressing=False Painted: It is blue.",
		"Ready=True Painted: It is blue.")
}

func TestTransitionTimesMoveOnlyOnTransitions(t *testing.T) {
	kind := &painter{}
	b := newBench(t, kind)
	const wet = "It is wet."
	for _, test := range []struct {
		name      string
		reconcile step
		ready     int // the last transition of Ready, in minutes after epoch
		degraded  int
	}{
		{"0: it is new", sets(conditions.Ready, metav1.ConditionFalse, "Painting", wet), 0, 0},
		{"1: the same again", sets(conditions.Ready, metav1.ConditionFalse, "Painting", wet), 0, 0},
		{"2: another reason", sets(conditions.Ready, metav1.ConditionFalse, "Drying", wet), 0, 0},
		{"3: a transition", sets(conditions.Ready, metav1.ConditionTrue, "Painted", ""), 3, 0},
		{"4: False on the way, but True again at the end", func(ctx context.Context, toy *Toy) (controller.Result, error) {
			conditions.False(&toy.Status.Conditions, conditions.Ready, "Painting", wet)
			return paint(ctx, toy)
		}, 3, 0},
		{"5: Degraded", fails(controller.Stalled(errors.New("broken"), 0)), 5, 5},
		{"6: still Degraded, though every pass begins with False", fails(controller.Stalled(errors.New("broken"), 0)), 5, 5},
		{"7: well again", paint, 7, 7},
		{"8: and a user's edit alone is no transition", paint, 7, 7},
	} {
		kind.reconcile = test.reconcile
		b.edit(theToy, func(*Toy) {})
		_, _ = b.pass()
		for kind, minutes := range map[string]int{conditions.Ready: test.ready, conditions.Degraded: test.degraded} {
			want := metav1.NewTime(epoch.Add(time.Duration(minutes) * time.Minute).Truncate(time.Second))
			if got := conditions.Find(b.get(theToy).Status.Conditions, kind).LastTransitionTime; !got.Equal(&want) {
				t.Errorf("%s: %s is from %s, wanted %s", test.name, kind, got, want)
			}
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
		"the first status is one": {[]step{paint}, []string{"Normal Painted default/a: It is red."}},
		"a repetition is none":    {[]step{paint, paint, paint}, []string{"Normal Painted default/a: It is red."}},
		"another message alone is none": {
			[]step{ready("Painted", "a"), ready("Painted", "b")}, []string{"Normal Painted default/a: a"},
		},
		"another reason is one": {
			[]step{ready("Painted", "a"), ready("Dry", "b")}, []string{"Normal Painted default/a: a", "Normal Dry default/a: b"},
		},
		"another status is one, though the reason stays": {
			[]step{ready("Paint", "a"), sets(conditions.Ready, metav1.ConditionFalse, "Paint", "b")},
			[]string{"Normal Paint default/a: a", "Normal Paint default/a: b"},
		},
		"another condition is none": {[]step{sets("Dry", metav1.ConditionTrue, "Sun", "")}, nil},
		"an error and its end are two": {
			[]step{fails(broken), fails(broken), paint}, []string{
				"Warning ReconcileError default/a: broken", "Normal Painted default/a: It is red.",
			},
		},
		"a wait is one": {
			[]step{fails(controller.WaitFor("NoBrush", "None.", time.Minute))}, []string{"Normal NoBrush default/a: None."},
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
		"it is a warning when Degraded": {
			[]step{fails(controller.Stalled(broken, 0)), paint}, []string{
				"Warning ReconcileError default/a: broken", "Normal Painted default/a: It is red.",
			},
		},
		"Invalid is a warning": {
			[]step{
				fails(controller.WithReason("TooGreen", apierrors.NewInvalid(toyKind.GroupKind(), "b", nil))),
			}, []string{`Warning TooGreen default/a: Toy.toys.example.com "b" is invalid`},
		},
		"a conflict on the way is none": {
			[]step{paint, fails(apierrors.NewConflict(toyResource, "b", broken)), paint}, []string{
				"Normal Painted default/a: It is red.",
			},
		},
		"a kind may be Degraded by itself": {
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

func TestConditionsFitLimitsOfAPIServer(t *testing.T) {
	for name, err := range map[string]error{
		"a message of any length": errors.New(strings.Repeat("ä", 40_000)),
		"a reason that a webhook thought up": &apierrors.StatusError{
			ErrStatus: metav1.Status{Code: 403, Reason: "toys must be green"},
		},
		"a reason that nobody thought of":       controller.WithReason("", errors.New("broken")),
		"a wait whose reason nobody thought of": controller.WaitFor("", "There is no brush.", time.Minute),
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, &painter{reconcile: fails(err)})
			_, _ = b.pass()
			ready := conditions.Find(b.get(theToy).Status.Conditions, conditions.Ready)
			if ready == nil {
				t.Fatal("there is no Ready")
			}
			if !reasonPattern.MatchString(ready.Reason) || len(ready.Message) > 32768 {
				t.Errorf("reason %q and a message of %d bytes", ready.Reason, len(ready.Message))
			}
		})
	}
}
