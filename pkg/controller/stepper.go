package controller

import (
	"context"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// Step is one reconcile of a Stepper.
type Step struct {
	Key     Key
	Outcome Outcome
	// Err is the error of a failed reconcile. It is nil for a reconcile that waits.
	Err error
	// Soon is true if the reconcile is retried as soon as the caches have observed all writes.
	Soon bool
	// Later is true if the reconcile is retried after a delay, even if nothing changes. It is false if Soon is true, and
	// for periodic checks.
	Later bool
}

// Stepper runs the reconciles of a controller one at a time, in the goroutine of its caller. In contrast to
// Controller.Run, it starts no workers and no timers: only events and Add queue a key. Package plan uses a Stepper.
type Stepper struct {
	*Controller
}

// Watch registers the handlers of all watches of the controller. It passes each handler to wrap, and registers the
// result. It returns checkers that are done once the handlers have received the initial lists of all watches, including
// the optional watches.
func (s Stepper) Watch(
	wrap func(cache.SharedInformer, cache.ResourceEventHandler) cache.ResourceEventHandler,
) ([]cache.DoneChecker, error) {
	registered, err := register([]*Controller{s.Controller}, wrap)
	if err != nil {
		return nil, err
	}
	return append(registered.synced(s.Controller, true), s.cachesSynced...), nil
}

// Add queues a key in the urgent lane.
func (s Stepper) Add(key Key) { s.queue.Add(key, Urgent) }

// Next reconciles the next key of the queue. It drops a key for which begins returns false. ok is false if the
// queue is empty.
func (s Stepper) Next(ctx context.Context, begins func(key Key) bool) (step Step, ok bool) {
	if s.queue.Len() == 0 {
		return step, false
	}
	key, _ := s.queue.Get()
	defer s.queue.Done(key)
	if !begins(key) {
		return Step{Key: key}, true
	}
	result, err := recovered(func() (Result, error) { return s.syncHandler(ctx, key) })
	d := classify(result, err)
	klog.FromContext(ctx).V(2).Info("Reconcile ended", "controller", s.name, "object", key, "result", string(d.outcome),
		"reason", d.reason)
	periodic := err == nil && result.Check
	return Step{
		Key: key, Outcome: d.outcome, Err: d.err, Soon: d.isSoon(),
		Later: !d.isSoon() && d.retry != retryOnChange && !periodic,
	}, true
}

// Clear empties the queue.
func (s Stepper) Clear() {
	for s.queue.Len() > 0 {
		key, _ := s.queue.Get()
		s.queue.Done(key)
	}
}

// Object returns an object from the cache. found is false if there is none. The object must not be changed.
func (s Stepper) Object(key Key) (obj Object, found bool) {
	obj, err := s.cached(key)
	return obj, err == nil
}

// Expected returns the time from which the object of a key is expected to become Ready: see Kind.Expected. ok is false
// if there is no such time, or no such object.
func (s Stepper) Expected(key Key) (from time.Time, ok bool) {
	obj, found := s.Object(key)
	if !found {
		return from, false
	}
	return s.objects.expected(obj)
}
