package controller_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"windlass.dev/windlass/pkg/cache/lenient"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/conditions"
)

// unreadable is the Mark of a cached Toy, and unreadableMessage what the status says then.
var unreadable = lenient.Mark{Reason: lenient.ReasonUnreadable, Cause: "spec.colour is no text"}

const unreadableMessage = "The object is not reconciled, because it cannot be read: spec.colour is no text. Correct " +
	"the object."

// deliverMarked brings the cache up to date, and marks the cached Toy.
func (b *bench) deliverMarked(mark lenient.Mark) {
	b.t.Helper()
	b.deliver()
	toy, err := b.lister(theToy.Namespace).Get(theToy.Name)
	if err == nil {
		toy = toy.copy()
		err = errors.Join(mark.SetOn(toy), b.cache.Update(toy))
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// isUnreadable reports whether err is an Unreadable.
func isUnreadable(err error) bool {
	var why *controller.Unreadable
	return errors.As(err, &why)
}

func TestUnreadableObjectIsReportedAndNotReconciled(t *testing.T) {
	kind := &cleaner{}
	b := newBench(t, kind)
	ctx, logged := logTo(t.Context())
	for range 4 {
		b.deliverMarked(unreadable)
		if _, err := b.pipeline.Sync(ctx, theToy); !isUnreadable(err) {
			t.Errorf("the error is %v", err)
		}
	}
	b.wantWrites("status default/a")
	ready := conditions.Find(b.get(theToy).Status.Conditions, conditions.Ready)
	if ready == nil || ready.Reason != unreadable.Reason || ready.Message != unreadableMessage ||
		!conditions.IsTrue(b.get(theToy).Status.Conditions, conditions.Stalled) {
		t.Errorf("its conditions are %v", b.get(theToy).Status.Conditions)
	}
	if kind.calls > 0 || len(b.get(theToy).Finalizers) > 0 {
		t.Error("it was reconciled")
	}
	if n := strings.Count(logged.String(), unreadableMessage); n != 1 {
		t.Errorf("it is logged %d times:\n%s", n, logged.String())
	}
	b.mustPass()
	if kind.calls != 1 {
		t.Error("it is not reconciled once it can be read")
	}
}

func TestStatusThatCannotBeReadIsNotOverwritten(t *testing.T) {
	b := newBench(t, &painter{})
	lost := unreadable
	lost.StatusLost = true
	ctx, logged := logTo(t.Context())
	b.deliverMarked(lost)
	if _, err := b.pipeline.Sync(ctx, theToy); !isUnreadable(err) {
		t.Errorf("the error is %v", err)
	}
	b.wantWrites()
	if !strings.Contains(logged.String(), unreadableMessage) {
		t.Errorf("the log does not say why:\n%s", logged.String())
	}
}

func TestUnreadableObjectCanBeDeleted(t *testing.T) {
	for name, tt := range map[string]struct {
		mark    lenient.Mark
		cleaned string // the colour that Finalize sees
	}{
		"without Finalize if the spec cannot be read": {unreadable, ""},
		"with the spec that the API server returns": {
			lenient.Mark{Reason: lenient.ReasonTooLarge, Size: 2 << 20, Limit: 1 << 20}, "red",
		},
	} {
		t.Run(name, func(t *testing.T) {
			kind := &cleaner{}
			b := newBench(t, kind)
			b.mustPass()
			b.takeWrites()
			b.delete(theToy)
			seen := ""
			kind.finalize = func(_ context.Context, toy *Toy) (controller.Result, error) {
				seen = toy.Spec.Colour
				return controller.Result{}, nil
			}
			b.deliverMarked(tt.mark)
			if _, err := b.passAsIs(); err != nil {
				t.Fatal(err)
			}
			b.wantWrites("finalizers default/a []")
			if b.get(theToy) != nil || seen != tt.cleaned {
				t.Errorf("it is there: %v; Finalize saw %q, want %q", b.get(theToy) != nil, seen, tt.cleaned)
			}
		})
	}
}

func TestObjectOverBudgetIsReadOnceThereIsRoom(t *testing.T) {
	kind := &painter{}
	b := newBench(t, kind)
	room := false
	b.pipeline.Room = func(namespace string, uid types.UID, size int) bool {
		if namespace != theToy.Namespace || uid != b.get(theToy).UID || size != 9000 {
			t.Errorf("room is asked for %d bytes of %s in %s", size, uid, namespace)
		}
		return room
	}
	exceeded := lenient.Mark{Reason: lenient.ReasonBudgetExceeded, Size: 9000, Limit: 8 << 20}
	const noRoom = "The object is not reconciled, because the large objects of the namespace have more than 8388608 " +
		"bytes in total. Make some of these objects smaller. The operator then reconciles the object within a few minutes."
	sync := func(want string) {
		t.Helper()
		b.deliverMarked(exceeded)
		if _, err := b.pipeline.Sync(t.Context(), theToy); !isUnreadable(err) || err.Error() != want {
			t.Errorf("the error is %v, want %s", err, want)
		}
		ready := conditions.Find(b.get(theToy).Status.Conditions, conditions.Ready)
		if ready == nil || ready.Reason != exceeded.Reason || ready.Message != want {
			t.Errorf("Ready is %+v, want %s", ready, want)
		}
	}
	sync(noRoom)
	b.wantWrites("status default/a")
	sync(noRoom)
	sync(noRoom)
	b.wantWrites()
	room = true
	sync("The budget of the namespace has room for the object again. The operator is about to read it.")
	b.wantWrites("status default/a") // after this write the API server sends the object again
	b.mustPass()
	if kind.calls != 1 {
		t.Error("it is not reconciled once it is cached")
	}
}
