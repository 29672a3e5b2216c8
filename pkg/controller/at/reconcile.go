package at

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/utils/clock"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/internal/pods"
	cnatclient "windlass.dev/windlass/pkg/generated/clientset/versioned/typed/cnat/v1"
)

// reconciler is the kind At.
type reconciler struct {
	ats    cnatclient.AtsGetter
	pods   coreclient.PodsGetter
	cache  corelisters.PodLister
	store  controller.Store // of that cache
	guard  *controller.Guard
	image  string
	clock  clock.PassiveClock
	starts *starts
	// refusals are those of Pods.
	refusals *refusals
}

// clockCheck is the longest wait at a time. A timer runs by a clock that does not
// jump, a schedule by one that does, and stands still while a machine sleeps. A pass
// that finds its time still ahead sends no request.
const clockCheck = time.Minute

// Reconcile implements controller.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, at *v1.At) (controller.Result, error) {
	phase := at.Status.Phase
	result, err := r.proceed(ctx, at)
	if err == nil && result.RequeueAfter == 0 && at.Status.Phase != phase {
		return controller.Continue(), nil // with what the next phase begins with
	}
	if result.RequeueAfter > clockCheck {
		return controller.Result{RequeueAfter: clockCheck, Check: true}, err
	}
	return result, err
}

// proceed takes at most one step from phase to phase, each of which has its own way
// of going on. The step to Running is stored before the Pod is made: Pod and status
// cannot be written at once, and of the two a command that is known to run but does
// not yet is the lesser evil.
func (r *reconciler) proceed(ctx context.Context, at *v1.At) (controller.Result, error) {
	switch at.Status.Phase {
	case v1.AtRunning:
		return r.run(ctx, at)
	case v1.AtDone:
		return r.expire(ctx, at)
	default:
		return r.schedule(at)
	}
}

// schedule waits for the time, which is a RequeueAfter, and then says so in the
// status. The next pass, which has that status, makes the Pod.
func (r *reconciler) schedule(at *v1.At) (controller.Result, error) {
	due, err := scheduledTime(at)
	if err != nil {
		at.Status.Phase = v1.AtPending
		return controller.Result{}, err
	}
	now := r.clock.Now()
	setPending(at, due)
	switch {
	case suspended(at):
		return controller.Result{}, nil
	case now.Before(due):
		return controller.Result{RequeueAfter: due.Sub(now)}, nil
	case missed(at, due, now):
		setFailed(at, reasonDeadline, fmt.Sprintf("The command was not started within %d s of its schedule.", *at.Spec.StartingDeadlineSeconds), now)
	default:
		setRunning(at, now)
		r.starts.begin(at)
	}
	return controller.Result{}, nil
}

// run makes the Pod if it is not there, and looks at it if it is.
func (r *reconciler) run(ctx context.Context, at *v1.At) (controller.Result, error) {
	pod, err := r.cache.Pods(at.Namespace).Get(podName(at))
	switch {
	case apierrors.IsNotFound(err):
		return r.start(ctx, at)
	case err != nil:
		return controller.Result{}, fmt.Errorf("reading Pod %s/%s from the cache: %w", at.Namespace, podName(at), err)
	case !metav1.IsControlledBy(pod, at):
		return controller.Result{}, foreignPod(at, pod)
	default:
		return r.watch(ctx, at, pod)
	}
}

// watch follows the Pod to its end.
func (r *reconciler) watch(ctx context.Context, at *v1.At, pod *corev1.Pod) (controller.Result, error) {
	now := r.clock.Now()
	counted := at.Status.Failed > attemptOf(pod)
	if end := endingOf(pod); end != nil {
		if end.succeeded {
			setComplete(at, end)
			return controller.Result{}, nil
		}
		if !countFailure(at, pod, end) {
			return controller.Result{}, nil
		}
		setRunning(at, now)
		return r.retry(ctx, at, pod, end, counted)
	}
	setRunning(at, now)
	if why := pods.BlockedStart(pods.StatusOf(pod, containerName)); why != "" {
		setNotStarting(at, why)
	}
	left, limited := remaining(at, now)
	if !limited {
		return controller.Result{}, nil
	}
	if left > 0 {
		return controller.Result{RequeueAfter: left}, nil
	}
	if err := r.deletePod(ctx, at, pod); err != nil {
		return controller.Result{}, err
	}
	setFailed(at, reasonDeadline, deadlineMessage(at), now)
	return controller.Result{}, nil
}

// retry makes room for the next Pod once the failure of this one is stored and
// its delay has passed. Until then the Pod stays, with its log.
func (r *reconciler) retry(ctx context.Context, at *v1.At, pod *corev1.Pod, end *ending, counted bool) (controller.Result, error) {
	now := r.clock.Now()
	if left, limited := remaining(at, now); limited && left <= 0 {
		setFailed(at, reasonDeadline, deadlineMessage(at), now)
		return controller.Result{}, nil
	}
	if wait := end.time.Add(retryDelay(at.Status.Failed)).Sub(now); wait > 0 {
		if left, limited := remaining(at, now); limited {
			wait = min(wait, left)
		}
		return controller.Result{RequeueAfter: wait}, nil
	}
	if !counted {
		return controller.Continue(), nil // with the status that counts it
	}
	return controller.Result{}, r.deletePod(ctx, at, pod)
}

// expire deletes a finished At whose time is over. Its Pod goes by garbage
// collection.
func (r *reconciler) expire(ctx context.Context, at *v1.At) (controller.Result, error) {
	setDone(at)
	if err := r.stopLate(ctx, at); err != nil {
		return controller.Result{}, err
	}
	left, limited := expiry(at, r.clock.Now())
	if !limited {
		return controller.Result{}, nil
	}
	if left > 0 {
		return controller.Result{RequeueAfter: left}, nil
	}
	err := r.ats.Ats(at.Namespace).Delete(ctx, at.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &at.UID, ResourceVersion: &at.ResourceVersion},
	})
	if apierrors.IsNotFound(err) {
		return controller.Result{}, controller.AwaitDeletion()
	}
	if err != nil {
		return controller.Result{}, fmt.Errorf("deleting At %s/%s, whose ttlSecondsAfterFinished has passed: %w", at.Namespace, at.Name, err)
	}
	return controller.Result{}, nil
}

// stopLate deletes a Pod that runs though its At is done: it was made by a process that
// had decided to when that was not so, and stood still while another one led.
func (r *reconciler) stopLate(ctx context.Context, at *v1.At) error {
	pod, err := r.cache.Pods(at.Namespace).Get(podName(at))
	if apierrors.IsNotFound(err) || err == nil && (!metav1.IsControlledBy(pod, at) || endingOf(pod) != nil) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading Pod %s/%s from the cache: %w", at.Namespace, podName(at), err)
	}
	return r.deletePod(ctx, at, pod)
}

// deletePod deletes the very version of the Pod that this pass has seen, so that
// one that has just ended well is not taken for one that has not.
func (r *reconciler) deletePod(ctx context.Context, at *v1.At, pod *corev1.Pod) error {
	if pod.DeletionTimestamp != nil || r.guard.IsFinished(keyOf(at), pod.Name, pod.UID) {
		return nil
	}
	err := r.pods.Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &pod.UID, ResourceVersion: &pod.ResourceVersion},
	})
	if apierrors.IsNotFound(err) {
		return controller.AwaitDeletion()
	}
	if err != nil {
		return fmt.Errorf("deleting Pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	r.guard.Finished(keyOf(at), pod.Name, pod.UID)
	return nil
}

func keyOf(at *v1.At) controller.Key { return controller.Key{Namespace: at.Namespace, Name: at.Name} }

func deadlineMessage(at *v1.At) string {
	return fmt.Sprintf("The command did not end within %d s.", *at.Spec.ActiveDeadlineSeconds)
}

// lookAgain is how often a Pod is looked at that no event tells of.
const lookAgain = 30 * time.Second
