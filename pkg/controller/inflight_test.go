package controller_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

// watched is a bench with a queue, and with a watch that delivers each status write as an event.
type watched struct {
	*bench
	queue   *controller.Queue
	handler cache.ResourceEventHandler
	// early is true if the event of a write comes before the response. Otherwise the event comes 10 ms after
	// the response.
	early bool
}

func newWatched(t *testing.T, early bool, kind controller.Reconciler[*Toy]) *watched {
	w := &watched{bench: newBench(t, kind), queue: controller.NewQueue("", clock.RealClock{}), early: early}
	w.pipeline.Clock = clock.RealClock{}
	w.pipeline.Client = func(namespace string) controller.Client[*Toy] { return echoing{w.client(namespace), w} }
	w.handler = controller.SelfHandler(w.queue, w.pipeline.Tracker)
	w.deliver()
	w.queue.Add(theToy, controller.Urgent)
	return w
}

// runFor runs the controller for d.
func (w *watched) runFor(d time.Duration) {
	w.t.Helper()
	c := controller.New(uniqueName(), w.queue, w.pipeline.Sync)
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	ctx, _ = logTo(ctx)
	if err := c.Run(ctx, 2); err != nil {
		w.t.Errorf("Run ended with: %v", err)
	}
	<-time.After(time.Second) // fake time, in which the last event is delivered
}

type echoing struct {
	controller.Client[*Toy]
	watched *watched
}

func (e echoing) UpdateStatus(ctx context.Context, toy *Toy, opts metav1.UpdateOptions) (*Toy, error) {
	before := e.watched.get(theToy)
	updated, err := e.Client.UpdateStatus(ctx, toy, opts)
	if err != nil {
		return updated, err
	}
	tell := func() {
		e.watched.deliver()
		e.watched.handler.OnUpdate(before, updated)
	}
	if e.watched.early {
		tell()
	} else {
		time.AfterFunc(10*time.Millisecond, tell)
	}
	return updated, err
}

// alternate returns a kind whose reason alternates with each reconcile. Reconcile returns wait(reason).
func alternate(wait func(reason string) error) *painter {
	kind := &painter{}
	kind.reconcile = func(context.Context, *Toy) (controller.Result, error) {
		return controller.Result{}, wait([]string{"Wet", "Dry"}[kind.calls%2])
	}
	return kind
}

func TestOwnStatusWriteDoesNotShortenDelay(t *testing.T) {
	for name, early := range map[string]bool{
		"if the event comes before the response": true,
		"if the event comes after the response":  false,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				kind := alternate(func(reason string) error { return controller.WaitFor(reason, "It is.", 30*time.Second) })
				w := newWatched(t, early, kind)
				w.runFor(10*time.Minute + time.Second)
				controllertest.Equal(t, "reconciles", 21, kind.calls)
				controllertest.Equal(t, "writes", 21, len(w.takeWrites()))
			})
		})
	}
}

func TestContinuedReconcileFindsItsStatusStored(t *testing.T) {
	for name, test := range map[string]struct {
		result controller.Result
		err    error
	}{
		"after Continue": {controller.Continue(), nil},
		"after a wait":   {controller.Result{}, controller.WaitFor("Mixing", "The colour is mixed.", controller.Soon)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin, kind := time.Now(), &painter{}
				var found []string
				var second time.Duration
				kind.reconcile = func(_ context.Context, toy *Toy) (controller.Result, error) {
					found = append(found, toy.Status.Colour)
					if kind.calls == 1 {
						toy.Status.Colour = "mixed"
						return test.result, test.err
					}
					second = time.Since(begin)
					return controller.Result{}, nil
				}
				newWatched(t, false, kind).runFor(time.Hour)
				controllertest.Equal(t, "colours", []string{"", "mixed"}, found)
				if second > 20*time.Millisecond {
					t.Errorf("it went on after %s; its status was in the cache after 10ms", second)
				}
			})
		})
	}
}

func TestOnlyForeignStatusEventDuringReconcileRequeues(t *testing.T) {
	for name, test := range map[string]struct {
		version func(w *watched) string
		want    int // reconciles
	}{
		"an object is reconciled if another client wrote the status": {func(*watched) string { return "99" }, 2},
		"an object is not reconciled if the reconcile began with the status": {
			func(w *watched) string { return w.get(theToy).ResourceVersion }, 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				kind := &painter{}
				w := newWatched(t, false, kind)
				kind.reconcile = func(context.Context, *Toy) (controller.Result, error) {
					if kind.calls == 1 {
						before := w.get(theToy)
						w.handler.OnUpdate(version(before.copy(), "0"), version(before, test.version(w)))
					}
					return controller.Result{}, nil
				}
				w.runFor(time.Minute)
				controllertest.Equal(t, "reconciles", test.want, kind.calls)
			})
		})
	}
}

// stored returns a Toy as the API server stores it, with version v and after change.
func stored(v string, change func(*Toy)) *Toy {
	toy := version(newToy("a"), v)
	toy.Generation = 1
	change(toy)
	return toy
}

func TestSelfTreatsChangeOutsideStatusAsUrgent(t *testing.T) {
	for name, change := range map[string]func(*Toy){
		"a generation":   func(toy *Toy) { toy.Generation = 2 },
		"a deletion":     func(toy *Toy) { toy.DeletionTimestamp = &metav1.Time{Time: epoch} },
		"a label":        func(toy *Toy) { toy.Labels = map[string]string{"a": "b"} },
		"an annotation":  func(toy *Toy) { toy.Annotations = map[string]string{"a": "b"} },
		"a finalizer":    func(toy *Toy) { toy.Finalizers = []string{"example.com/a"} },
		"an owner":       func(toy *Toy) { toy.OwnerReferences = []metav1.OwnerReference{owner("v1", "Toy", "b")} },
		"another object": func(toy *Toy) { toy.UID = "another" },
		"no generation":  func(toy *Toy) { toy.Generation = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			controllertest.Equal(t, "keys", []string{"default/a", nobody}, enqueued(func(q *controller.Queue) {
				controller.SelfHandler(q, controller.NewTracker()).OnUpdate(stored("1", func(*Toy) {}), stored("2", change))
			}))
		})
	}
}

func TestSelfQueuesForeignStatusChangeInBackground(t *testing.T) {
	colour := func(toy *Toy) { toy.Status.Colour = "blue" }
	for name, test := range map[string]struct {
		own  string // the version that this process wrote
		want []string
	}{
		"a status of another client queues the object":                     {"", []string{nobody, "default/a"}},
		"a status of another client after an own status queues the object": {"1", []string{nobody, "default/a"}},
		"an own status queues nothing":                                     {"2", []string{nobody}},
		"a status that is older than an own status queues nothing":         {"3", []string{nobody}},
	} {
		t.Run(name, func(t *testing.T) {
			tracker, cached := controller.NewTracker(), &controllertest.Store{}
			tracker.Wrote(theToy, "Toy", cached, test.own)
			tracker.WroteStatus(theToy, test.own)
			cached.Set("2")
			_ = tracker.Observed(theToy) // a worker may call Observed before the event is handled
			controllertest.Equal(t, "keys", test.want, enqueued(func(q *controller.Queue) {
				controller.SelfHandler(q, tracker).OnUpdate(stored("1", func(*Toy) {}), stored("2", colour))
			}))
		})
	}
}
