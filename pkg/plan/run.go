package plan

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"windlass.dev/windlass/pkg/controller"
)

// maxReconciles limits the reconciles of one object. An object that exceeds this number never settles, for example
// because the operator and an admission webhook revert each other's writes.
const maxReconciles = 1000

// Run runs controllers whose clients use a Server. Its methods must not be called concurrently.
type Run struct {
	server     *Server
	clock      *Clock
	kinds      []controller.Stepper
	deliveries []*delivery
	// handled is the number of changes of the server that all handlers have received.
	handled int
	// due is the time at which the next reconciles happen. Zero means now.
	due    time.Time
	states map[Object]*state
	// touched are the objects that were reconciled, in the order of their first reconcile.
	touched []Object
}

// state is the state of an object after its reconciles.
type state struct {
	reconciles int
	// later is true if the last reconcile is retried after a delay: see Step.Later of package controller.
	later bool
	// failed is the error of the last reconcile if it failed for another reason than a rejected write.
	failed error
}

// Object is an object of a kind.
type Object struct {
	schema.GroupVersionKind
	controller.Key
}

// of returns the controller of a kind.
func (r *Run) of(kind schema.GroupKind) (k controller.Stepper, found bool) {
	for _, k := range r.kinds {
		if k.GroupVersionKind().GroupKind() == kind {
			return k, true
		}
	}
	return k, false
}

// NewRun returns a Run of controllers. Of several queued objects, the object of the first controller is reconciled
// first. clock must be the clock of the controllers.
func NewRun(server *Server, clock *Clock, controllers ...*controller.Controller) *Run {
	r := &Run{server: server, clock: clock, states: map[Object]*state{}}
	for _, c := range controllers {
		r.kinds = append(r.kinds, controller.Stepper{Controller: c})
	}
	return r
}

// Start calls start, which starts the informers, and waits until the caches are filled. It queues no object. It returns
// the first error of a list.
func (r *Run) Start(ctx context.Context, start func(stop <-chan struct{})) error {
	var synced []cache.DoneChecker
	for _, k := range r.kinds {
		checkers, err := k.Watch(r.deliver)
		if err != nil {
			return err
		}
		synced = append(synced, checkers...)
	}
	filling, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r.server.onFailure(cancel)
	start(ctx.Done())
	if !cache.WaitFor(filling, "", synced...) {
		return context.Cause(filling)
	}
	for _, d := range r.deliveries {
		// a reflector sets the version after it has filled the cache
		if err := poll(filling, func() bool { return d.informer.LastSyncResourceVersion() != "" }); err != nil {
			return context.Cause(filling)
		}
		d.list = d.informer.LastSyncResourceVersion()
	}
	for _, k := range r.kinds {
		k.Clear()
	}
	return nil
}

// Add queues an object of a kind. Settle then reconciles the object even if it has not changed.
func (r *Run) Add(kind schema.GroupKind, key controller.Key) {
	if k, found := r.of(kind); found {
		k.Add(key)
	}
}

// Settle reconciles the queued objects, and the objects that the planned writes queue, until the queues are empty. Then
// the garbage collector acts, and Settle reconciles the objects that it has changed and the objects that wait for a
// retry, until nothing changes. For each object that waits for a time, Settle then plans what happens at this time: see
// Kind.Expected of package controller.
func (r *Run) Settle(ctx context.Context) error {
	if err := r.settle(ctx); err != nil {
		return err
	}
	for i := 0; i < len(r.touched); i++ { // the loop adds objects
		of := r.touched[i]
		k, _ := r.of(of.GroupKind())
		due, ok := k.Expected(of.Key)
		if !ok || !due.After(r.clock.Now()) {
			continue
		}
		r.clock.set(due)
		r.due = due
		k.Add(of.Key)
		err := r.settle(ctx)
		r.due = time.Time{}
		r.clock.reset()
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *Run) settle(ctx context.Context) error {
	for {
		if err := r.reconcileAll(ctx); err != nil {
			return err
		}
		if changed, err := r.server.collect(ctx); err != nil || !changed {
			return err
		}
		for _, of := range r.touched { // objects that wait for the garbage collector get no event
			if r.states[of].later {
				r.Add(of.GroupKind(), of.Key)
			}
		}
	}
}

// reconcileAll reconciles until all queues are empty.
func (r *Run) reconcileAll(ctx context.Context) error {
	for {
		if err := r.await(ctx); err != nil {
			return err
		}
		reconciled := false
		for _, k := range r.kinds {
			did, err := r.next(ctx, k)
			if err != nil {
				return err
			}
			if reconciled = did; did {
				break
			}
		}
		if !reconciled {
			return nil
		}
	}
}

// next reconciles the next object of a kind. It returns false if none is queued.
func (r *Run) next(ctx context.Context, k controller.Stepper) (bool, error) {
	var (
		of  Object
		now *state
	)
	written := len(r.server.Writes())
	step, ok := k.Next(ctx, func(key controller.Key) bool {
		of = Object{k.GroupVersionKind(), key}
		now = r.touch(of)
		r.server.setWriter(of.Kind+" "+key.String(), r.due)
		return now.reconciles < maxReconciles
	})
	if !ok {
		return false, nil
	}
	r.server.setWriter("", time.Time{})
	if now.reconciles == maxReconciles {
		now.failed = fmt.Errorf("after %d reconciles, the object still changes", maxReconciles)
		return true, ctx.Err()
	}
	now.reconciles++
	now.later, now.failed = step.Later, nil
	rejected := slices.ContainsFunc(r.server.Writes()[written:], func(w Write) bool { return w.Err != nil })
	if step.Outcome == controller.OutcomeError && !rejected {
		now.failed = step.Err
	}
	if step.Soon {
		if step.Outcome == controller.OutcomeConflict {
			<-time.After(time.Millisecond) // until a cache without a handler has observed a write
		}
		k.Add(step.Key)
	}
	return true, ctx.Err()
}

// touch returns the state of an object that is about to be reconciled.
func (r *Run) touch(of Object) *state {
	if r.states[of] == nil {
		r.states[of] = &state{}
		r.touched = append(r.touched, of)
	}
	return r.states[of]
}

// Reconciled returns the objects that were reconciled, in the order of their first reconcile.
func (r *Run) Reconciled() []Object { return slices.Clone(r.touched) }

// Object returns a reconciled object as it is after the planned writes. found is false if it does not exist.
func (r *Run) Object(of Object) (obj controller.Object, found bool) {
	k, found := r.of(of.GroupKind())
	if !found {
		return nil, false
	}
	return k.Object(of.Key)
}

// Failure is an object whose last reconcile failed for another reason than a rejected write. The plan lacks the writes
// that the operator would send for it.
type Failure struct {
	Object
	Err error
}

// Failed returns all failures.
func (r *Run) Failed() (all []Failure) {
	for _, of := range r.touched {
		if err := r.states[of].failed; err != nil {
			all = append(all, Failure{of, err})
		}
	}
	return all
}
