package controller

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"windlass.dev/windlass/pkg/controller/conditions"
)

// resyncJitter spreads resyncs by ±10 %.
const resyncJitter = 0.1

// Pipeline reconciles the objects of a Kind in the steps of the drawing in doc.go.
type Pipeline[T Object] struct {
	Kind[T]
	Runtime
	// Store is the cache that the Lister reads.
	Store Store
}

// Sync reconciles the object with the given key. The function classify derives the status and the next
// reconcile from the result and the error.
func (p *Pipeline[T]) Sync(ctx context.Context, key Key) (Result, error) {
	// An object that was fetched before this check might lack a write of this process.
	if err := p.Tracker.Observed(key); err != nil {
		return Result{}, err
	}
	cached, err := p.Lister(key.Namespace).Get(key.Name)
	if err != nil {
		if apierrors.IsNotFound(err) {
			pending, err := p.release(ctx, key)
			// The Tracker knows which children this process has released. A call that follows an error or an event of a child
			// must know that, too, because the cache may still have these children.
			if err == nil && !pending {
				p.Tracker.Forget(key)
			}
			return Result{}, err
		}
		return Result{}, fmt.Errorf("reading %s %s from the cache: %w", p.GroupVersionKind.Kind, key, err)
	}
	p.Tracker.beginReconcile(key, cached.GetResourceVersion())
	defer p.endReconcile(key)
	// Before the check for a pause, because the deletion of a paused object may wait for its children.
	if cached.GetDeletionTimestamp() != nil {
		if _, err := p.release(ctx, key); err != nil {
			return Result{}, err
		}
	}
	if isPaused(cached) {
		return Result{}, p.pause(ctx, key, cached)
	}
	if cached.GetDeletionTimestamp() != nil {
		return p.finalize(ctx, key, cached)
	}
	// After finalize, because the write budget delays no deletion.
	if wait := p.Tracker.writeBudget.wait(key, p.Clock.Now()); wait > 0 {
		return Result{}, Postpone(wait)
	}
	if why := UnreadableIn(cached); why != nil {
		return p.reportUnreadable(ctx, key, cached, why)
	}
	current, err := p.ensureFinalizer(ctx, key, cached)
	if err != nil {
		return p.callAndWriteStatus(ctx, key, cached, func(context.Context, T) (Result, error) { return Result{}, err })
	}
	return p.reconcile(ctx, key, current)
}

// endReconcile records the end of a reconcile. A reconcile that sent a write counts against the write budget of its
// object.
func (p *Pipeline[T]) endReconcile(key Key) {
	if p.Tracker.endReconcile(key) {
		p.Tracker.writeBudget.spend(key, p.Clock.Now())
	}
}

// reconcile calls the Reconciler. If nothing is left to do, the object waits for its resync.
func (p *Pipeline[T]) reconcile(ctx context.Context, key Key, current T) (Result, error) {
	result, err := p.callAndWriteStatus(ctx, key, current, p.Reconciler.Reconcile)
	if err != nil || result.RequeueAfter > 0 {
		return result, err
	}
	return p.resync(), nil
}

// resync returns the Result of a reconcile with nothing left to do.
func (p *Pipeline[T]) resync() Result {
	if p.Resync == 0 {
		return Result{}
	}
	shortest := time.Duration(float64(p.Resync) * (1 - resyncJitter))
	return Result{RequeueAfter: wait.Jitter(shortest, 2*resyncJitter/(1-resyncJitter)), Check: true}
}

// callAndWriteStatus calls a function of the kind with a copy of current, and writes the status of the copy. It returns
// the result and the error of the function. If the write of the status fails, callAndWriteStatus returns the error of
// the write instead, so that a retry follows that writes the status. An error of the function that is retried with a
// backoff takes precedence, because its retry writes the status, too.
func (p *Pipeline[T]) callAndWriteStatus(
	ctx context.Context, key Key, current T, function func(context.Context, T) (Result, error),
) (Result, error) {
	obj := current.DeepCopyObject().(T)
	conditions.Begin(obj.StatusConditions())
	result, err := recovered(func() (Result, error) { return function(ctx, obj) })
	for _, note := range p.Tracker.takeWarnings(key) {
		p.Events.Event(obj, corev1.EventTypeWarning, note.Reason, note.Message)
	}
	// Only finalize passes an object that is being deleted.
	finalized := current.GetDeletionTimestamp() != nil && err == nil && result.RequeueAfter == 0
	if finalized {
		return result, nil // the object is about to be removed, with its status
	}
	d := classifyForStatus(current, result, err)
	statusErr := p.writeStatus(ctx, key, current, obj, d)
	if statusErr == nil {
		return result, err
	}
	if d.retry == retryWithBackoff {
		klog.FromContext(ctx).V(2).Info("Status not written", "err", statusErr)
		return result, err
	}
	return Result{}, statusErr
}

// writeStatus writes the status in one request if the status has changed, and then calls recordTransition. It does
// nothing after a quiet decision, or if the status of the cached object was lost.
func (p *Pipeline[T]) writeStatus(ctx context.Context, key Key, current, obj T, d decision) error {
	if why := UnreadableIn(obj); d.quiet || why != nil && why.StatusLost {
		return nil
	}
	d.setConditions(obj)
	*obj.StatusObservedGeneration() = obj.GetGeneration()
	conditions.Stamp(*current.StatusConditions(), obj.StatusConditions(), obj.GetGeneration(),
		metav1.NewTime(p.Clock.Now()))
	if equality.Semantic.DeepEqual(current, obj) {
		return nil
	}
	if err := p.sendStatus(ctx, key, obj); err != nil {
		return err
	}
	p.recordTransition(current, obj, d.err != nil || d.warn)
	return nil
}

// sendStatus writes the status of obj in one request. It returns ErrDeletionNotObserved if the object does not exist.
func (p *Pipeline[T]) sendStatus(ctx context.Context, key Key, obj T) error {
	p.Tracker.Sends(key)
	updated, err := p.Client(key.Namespace).UpdateStatus(ctx, obj, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return ErrDeletionNotObserved
	}
	if err != nil {
		return fmt.Errorf("writing the status of %s %s: %w", p.GroupVersionKind.Kind, key, err)
	}
	p.Tracker.Wrote(key, p.GroupVersionKind.Kind, p.Store, updated.GetResourceVersion())
	p.Tracker.WroteStatus(key, updated.GetResourceVersion())
	return nil
}

// recordTransition records an Event if the status or reason of Ready has changed. Otherwise it records an Event if the
// object has become Degraded, or if the reason of Degraded has changed. For example, a failing component makes a
// Platform Degraded, but the reason of its condition Ready stays the same. The Event is a Warning if warn is true or
// the object is Degraded.
func (p *Pipeline[T]) recordTransition(before, obj T, warn bool) {
	degraded := conditions.IsTrue(*obj.StatusConditions(), conditions.Degraded)
	note := transition(before, obj, conditions.Ready)
	if note == nil && degraded {
		note = transition(before, obj, conditions.Degraded)
	}
	if note == nil {
		return
	}
	eventType := corev1.EventTypeNormal
	if warn || degraded {
		eventType = corev1.EventTypeWarning
	}
	p.Events.Event(obj, eventType, note.Reason, note.Message)
}

// transition returns the condition of a type in obj if its status or reason differs from before, and nil
// otherwise.
func transition(before, obj Object, kind string) *metav1.Condition {
	was, is := conditions.Find(*before.StatusConditions(), kind), conditions.Find(*obj.StatusConditions(), kind)
	if is == nil || was != nil && was.Status == is.Status && was.Reason == is.Reason {
		return nil
	}
	return is
}
