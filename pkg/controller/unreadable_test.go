package controller_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/conditions"
)

// unreadable is the reason why the cached Toy differs from the stored Toy.
var unreadable = controller.Unreadable{Reason: "Unreadable", Message: "Field spec.colour cannot be read."}

// deliverMarked brings the cache up to date, and marks the cached Toy as unreadable with this reason.
func (b *bench) deliverMarked(why controller.Unreadable) {
	b.t.Helper()
	b.deliver()
	toy, err := b.lister(theToy.Namespace).Get(theToy.Name)
	if err == nil {
		toy = toy.copy()
		err = errors.Join(why.Mark(toy), b.cache.Update(toy))
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
	if ready == nil || ready.Reason != unreadable.Reason || ready.Message != unreadable.Message || !conditions.IsTrue(b.get(theToy).Status.Conditions, conditions.Stalled) {
		t.Errorf("its conditions are %v", b.get(theToy).Status.Conditions)
	}
	if kind.calls > 0 || len(b.get(theToy).Finalizers) > 0 {
		t.Error("it was reconciled")
	}
	if n := strings.Count(logged.String(), unreadable.Message); n != 1 {
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
	if !strings.Contains(logged.String(), lost.Message) {
		t.Errorf("the log does not say why:\n%s", logged.String())
	}
}

func TestFailedStatusWriteOfUnreadableObjectIsRetried(t *testing.T) {
	b := newBench(t, &painter{})
	refused := apierrors.NewInternalError(errors.New("no"))
	b.refusal = refused
	b.deliverMarked(unreadable)
	if _, err := b.passAsIs(); !errors.Is(err, refused) {
		t.Errorf("the error is %v, want %v", err, refused)
	}
	if _, err := b.passAsIs(); !isUnreadable(err) {
		t.Errorf("the error of the second attempt is %v", err)
	}
	b.wantWrites("status default/a", "status default/a")
}

func TestUnreadableObjectCanBeDeleted(t *testing.T) {
	for name, tt := range map[string]struct {
		mark    controller.Unreadable
		cleaned string // the colour that Finalize sees
	}{
		"without Finalize if the spec cannot be read": {unreadable, ""},
		"with the spec that the API server returns":   {controller.Unreadable{Reason: "TooLarge", Message: "m", Stored: true}, "red"},
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
	exceeded := controller.Unreadable{Reason: "NamespaceBudgetExceeded", Message: "There is no room.", Stored: true, Size: 9000}
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
	sync(exceeded.Message)
	b.wantWrites("status default/a")
	sync(exceeded.Message)
	sync(exceeded.Message)
	b.wantWrites()
	room = true
	sync("The budget of the namespace has room for the object again. The operator is about to read it.")
	b.wantWrites("status default/a") // after this write the API server sends the object again
	b.mustPass()
	if kind.calls != 1 {
		t.Error("it is not reconciled once it is cached")
	}
}

func TestUnreadableMarkOfUserIsIgnored(t *testing.T) {
	for name, value := range map[string]string{
		"a mark without a token": `{"reason":"Mine","message":"Look elsewhere.","identity":true}`,
		"a mark with any token":  `{"reason":"Mine","message":"Look elsewhere.","identity":true,"token":"a"}`,
		"no mark":                `{`,
	} {
		t.Run(name, func(t *testing.T) {
			toy := &Toy{}
			toy.Annotations = map[string]string{controller.UnreadableAnnotation: value}
			if why := controller.UnreadableIn(toy); why != nil {
				t.Errorf("the object is unreadable: %v", why)
			}
			if err := unreadable.Mark(toy); err != nil {
				t.Fatal(err)
			}
			if why := controller.UnreadableIn(toy); why == nil || *why != unreadable {
				t.Errorf("the mark of the cache is %v", why)
			}
		})
	}
}
