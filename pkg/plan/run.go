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

// maxReconciles limits the reconciles of one object. An object that exceeds it never settles, for example because the
// operator and an admission webhook revert each other's writes.
const maxReconciles = 1000

// Run runs controllers whose clients use a Server. Its methods must not be called concurrently.
type Run struct {
	server     *Server
	clock      *Clock
	kinds      []controller.Stepper
	deliveries []*delivery
	// handled is the number of changes of the server that all handlers have received.
	handled    int
	reconciles map[Object]int
	// failed are the errors of the last reconciles that failed for another reason than a refused write.
	failed map[Object]error
	// later are the objects whose last reconcile is retried after a delay: see Step.Later of package controller.
	later map[Object]bool
	// touched are the objects that were reconciled, in the order of their first reconcile.
	touched []Object
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
	r := &Run{
		server: server, clock: clock,
		reconciles: map[Object]int{}, failed: map[Object]error{}, later: map[Object]bool{},
	}
	for _, c := range controllers {
		r.kinds = append(r.kinds, controller.Stepper{Controller: c})
	}
	return r
}

// Start fills the caches, which start starts. It queues no object. It returns the first error of a list.
func (r *Run) Start(ctx context.Context, start func(stop <-chan struct{})) error {
	var synced []cache.DoneChecker
	for _, k := range r.kinds {
		checkers, err := k.Watch(r.deliver)
		if err != nil {
			return err
		}
		synced = append(synced, checkers...)
	}
	start(ctx.Done())
	filling, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { cancel(r.server.failure(filling)) }()
	if !cache.WaitFor(filling, "", synced...) {
		return context.Cause(filling)
	}
	for _, d := range r.deliveries {
		for d.list = d.informer.LastSyncResourceVersion(); d.list == ""; d.list = d.informer.LastSyncResourceVersion() {
			select { // a reflector sets the version after it has filled the cache
			case <-filling.Done():
				return context.Cause(filling)
			case <-time.After(time.Millisecond):
			}
		}
	}
	for _, k := range r.kinds {
		k.Clear()
	}
	return nil
}

// Add queues an object of a kind. Settle then reconciles it even if it has not changed.
func (r *Run) Add(kind schema.GroupKind, key controller.Key) {
	if k, found := r.of(kind); found {
		k.Add(key)
	}
}

// Settle reconciles the queued objects, and the objects that the planned writes queue, until the queues are empty. Then
// the garbage collector acts, and Settle reconciles the objects that it has changed and the objects that wait for a
// retry, until nothing changes. It then plans at a later time for each object that waits for a time: see Kind.Expected
// of package controller.
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
		r.server.setDue(due)
		k.Add(of.Key)
		err := r.settle(ctx)
		r.server.setDue(time.Time{})
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
		if changed, err := r.server.Collect(ctx); err != nil || !changed {
			return err
		}
		for _, of := range r.touched { // no event tells an object that the garbage collector has done what it waits for
			if r.later[of] {
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
	refused := r.server.refusals()
	var of Object
	admitted := false
	step, ok := k.Next(ctx, func(key controller.Key) bool {
		of = Object{k.GroupVersionKind(), key}
		admitted = r.reconciles[of] < maxReconciles
		r.server.setWriter(of.Kind + " " + key.String())
		return admitted
	})
	if !ok {
		return false, nil
	}
	r.server.setWriter("")
	if !admitted {
		r.failed[of] = fmt.Errorf("it was reconciled %d times and is still not settled", maxReconciles)
		return true, ctx.Err()
	}
	if r.reconciles[of] == 0 {
		r.touched = append(r.touched, of)
	}
	delete(r.failed, of)
	if step.Outcome == controller.OutcomeError && r.server.refusals() == refused {
		r.failed[of] = step.Err
	}
	if delete(r.later, of); step.Later {
		r.later[of] = true
	}
	r.reconciles[of]++
	if step.Soon {
		if step.Outcome == controller.OutcomeConflict {
			<-time.After(time.Millisecond) // a cache without a handler is about to observe a write
		}
		k.Add(step.Key)
	}
	return true, ctx.Err()
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

// Failure is an object whose last reconcile failed for another reason than a refused write. The plan lacks the writes
// that the operator would send for it.
type Failure struct {
	Object
	Err error
}

// Failed returns all failures.
func (r *Run) Failed() (all []Failure) {
	for _, of := range r.touched {
		if err := r.failed[of]; err != nil {
			all = append(all, Failure{of, err})
		}
	}
	return all
}
