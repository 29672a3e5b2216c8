package at

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/clock"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/controller"
	cnatclient "windlass.dev/windlass/pkg/generated/clientset/versioned/typed/cnat/v1"
	"windlass.dev/windlass/pkg/kinds/internal/runonce"
)

// reconciler reconciles Ats.
type reconciler struct {
	commands *runonce.Commands
	ats      cnatclient.AtsGetter
	image    string
	clock    clock.PassiveClock
	events   controller.EventRecorder
	// starts maps the UID of each At that this process has set to Running to the start time of the At.
	starts *utilcache.Expiring
}

// clockCheck is the longest RequeueAfter: timers use the monotonic clock, which stands still while a
// machine sleeps, but schedules use the wall clock, which can jump. A check before the scheduled time sends
// no request.
const clockCheck = time.Minute

// Reconcile implements controller.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, at *v1.At) (controller.Result, error) {
	phase := at.Status.Phase
	pod, err := r.commands.Observe(ctx, at)
	if err != nil {
		return controller.Result{}, err
	}
	result, err := r.proceed(ctx, at, pod)
	if err == nil && result.RequeueAfter == 0 && at.Status.Phase != phase {
		return controller.Continue(), nil // with the first step of the next phase
	}
	if result.RequeueAfter > clockCheck {
		return controller.Result{RequeueAfter: clockCheck, Check: true}, err
	}
	return result, err
}

// proceed moves an At by at most one phase. The phase Running is stored before the Pod is created, so
// that every command that runs is recorded in the status.
func (r *reconciler) proceed(ctx context.Context, at *v1.At, pod runonce.State) (controller.Result, error) {
	if at.Status.Phase == v1.AtRunning {
		return r.run(ctx, at, pod)
	}
	if pod.Pod != nil && !pod.Own {
		if err := r.commands.ReleaseUnowned(ctx, pod); err != nil {
			return controller.Result{}, err
		}
	}
	if at.Status.Phase == v1.AtDone {
		return r.expire(ctx, at, pod)
	}
	return r.schedule(at)
}

// schedule returns a RequeueAfter until the scheduled time. At that time, it sets the phase to Running. The next
// reconcile, which has the stored status, then creates the Pod. If startingDeadlineSeconds have passed, schedule fails
// the At instead.
func (r *reconciler) schedule(at *v1.At) (controller.Result, error) {
	due, err := scheduledTime(at)
	if err == nil {
		_, err = desiredPod(at, r.image)
	}
	if err != nil {
		at.Status.Phase = v1.AtPending
		return controller.Result{}, controller.Stalled(err, 0)
	}
	now := r.clock.Now()
	setPending(at, due)
	switch {
	case suspended(at):
		return controller.Result{}, nil
	case now.Before(due):
		return controller.Result{RequeueAfter: due.Sub(now)}, nil
	case missed(at, due, now):
		setFailed(at, messageMissed.Note(*at.Spec.StartingDeadlineSeconds), now)
	default:
		setRunning(at, now)
		r.starts.Set(at.UID, *at.Status.StartTime, fresh)
	}
	return controller.Result{}, nil
}

// expire deletes a finished At after ttlSecondsAfterFinished, even if it could not release the Pod: garbage collection
// then deletes the Pod, and Commands.Release releases it.
func (r *reconciler) expire(ctx context.Context, at *v1.At, pod runonce.State) (controller.Result, error) {
	setDone(at)
	left, limited := expiry(at, r.clock.Now())
	if err := r.endPod(ctx, pod); err != nil && (!limited || left > 0) {
		return controller.Result{}, err
	}
	if !limited || left > 0 {
		return controller.Result{RequeueAfter: left}, nil
	}
	err := r.ats.Ats(at.Namespace).Delete(ctx, at.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &at.UID, ResourceVersion: &at.ResourceVersion},
	})
	if apierrors.IsNotFound(err) {
		return controller.Result{}, controller.ErrDeletionNotObserved
	}
	if err != nil {
		return controller.Result{}, fmt.Errorf("deleting At %s/%s, whose ttlSecondsAfterFinished has passed: %w",
			at.Namespace, at.Name, err)
	}
	return controller.Result{}, nil
}

// endPod releases the Pod of an At that is Done. If the command still runs, endPod deletes the Pod: the process that
// created the Pod was suspended before it sent the request, and another process led in the meantime.
func (r *reconciler) endPod(ctx context.Context, pod runonce.State) error {
	switch {
	case !pod.Own:
		return nil
	case pod.End == nil:
		return r.commands.Remove(ctx, pod)
	}
	_, err := r.commands.ReleasePod(ctx, pod)
	return err
}
