package controller_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

// releasing is a painter of a kind whose children have a finalizer.
type releasing struct {
	painter
	released []controller.Key
	err      error
}

func (r *releasing) Release(_ context.Context, key controller.Key) (pending bool, err error) {
	r.released = append(r.released, key)
	return false, r.err
}

func TestReleaseIsCalledForObjectThatIsGoneOrBeingDeleted(t *testing.T) {
	for name, c := range map[string]struct {
		change func(b *bench)
		want   bool
	}{
		"an object that exists":         {func(*bench) {}, false},
		"an object that does not exist": {func(b *bench) { b.delete(theToy) }, true},
		"an object that is being deleted": {func(b *bench) {
			b.edit(theToy, func(toy *Toy) {
				toy.DeletionTimestamp, toy.Finalizers = new(metav1.Now()), []string{"somebody/else"}
			})
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			kind := &releasing{err: errors.New("no response")}
			b := newBench(t, kind)
			b.pipeline.Release = kind.Release
			c.change(b)
			b.deliver()
			_, err := b.passAsIs()
			controllertest.Equal(t, "released", c.want, slices.Contains(kind.released, theToy))
			controllertest.Equal(t, "whether the error is returned", c.want, errors.Is(err, kind.err))
		})
	}
}

func TestTrackerForgetsKeyOnlyAfterReleaseHasSucceeded(t *testing.T) {
	kind := &releasing{err: errors.New("no response")}
	b := newBench(t, kind)
	b.pipeline.Release = kind.Release
	b.delete(theToy)
	b.deliver()
	b.pipeline.Tracker.Deleted(theToy, "Pod", "pod-uid")
	for _, failing := range []bool{true, false} {
		if !failing {
			kind.err = nil
		}
		if _, err := b.passAsIs(); !errors.Is(err, kind.err) {
			t.Errorf("the error is %v, wanted %v", err, kind.err)
		}
		controllertest.Equal(t, "whether a deletion is remembered", failing,
			b.pipeline.Tracker.IsDeleted(theToy, "Pod", "pod-uid"))
	}
}
