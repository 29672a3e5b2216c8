package at

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/clock"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/controller"
	cnatclient "windlass.dev/windlass/pkg/generated/clientset/versioned/typed/cnat/v1"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

// reconciler reconciles Ats.
type reconciler struct {
	ats      cnatclient.AtsGetter
	pods     coreclient.PodsGetter
	tracker  *controller.Tracker
	commands *pods.Commands
	image    string
	clock    clock.PassiveClock
	events   controller.EventRecorder
	starts   *starts
	// refusals remembers the rejected creations of Pods, each with the generation of its At.
	refusals *controller.Refusals[int64]
}

// clockCheck is the longest RequeueAfter: timers use the monotonic clock, which stands still while a
// machine sleeps, but schedules use the wall clock, which can jump. A check before the scheduled time sends
// no request.
const clockCheck = time.Minute

// Reconcile implements controller.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, at *v1.At) (controller.Result, error) {
	phase := at.Status.Phase
	if pod, err := r.commands.Cache.Get(at.Namespace, podName(at)); err == nil && !metav1.IsControlledBy(pod, at) {
		if err := r.commands.ReleaseUnowned(ctx, keyOf(at), pod); err != nil {
			return controller.Result{}, err
		}
	}
	result, err := r.proceed(ctx, at)
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

// schedule returns a RequeueAfter until the scheduled time. Then it sets the phase to Running, or fails the
// At if startingDeadlineSeconds have passed. After Running is set, the next reconcile, which has the stored
// status, creates the Pod.
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
		setFailed(at, messageMissed.Note(*at.Spec.StartingDeadlineSeconds), now)
	default:
		setRunning(at, now)
		r.starts.begin(at)
	}
	return controller.Result{}, nil
}

// run creates the Pod if the cache lacks it, and otherwise updates the status from the Pod. It returns an
// error if the At does not control the Pod.
func (r *reconciler) run(ctx context.Context, at *v1.At) (controller.Result, error) {
	pod, err := r.commands.Find(ctx, keyOf(at), podName(at))
	switch {
	case err != nil:
		return controller.Result{}, err
	case pod == nil:
		return r.start(ctx, at)
	case !metav1.IsControlledBy(pod, at):
		return controller.Result{}, foreignPod(at, pod)
	case r.commands.IsHidden(keyOf(at)):
		return r.uncached(ctx, at, pod)
	default:
		return r.watch(ctx, at, pod)
	}
}

// watch updates the status from the Pod, retries a failed command, and enforces activeDeadlineSeconds.
func (r *reconciler) watch(ctx context.Context, at *v1.At, pod *corev1.Pod) (controller.Result, error) {
	now := r.clock.Now()
	counted := at.Status.Failed > attemptOf(pod)
	end, requeueAfter := endingOf(pod, now)
	if end != nil {
		switch {
		case exceeded(at, end):
			if end.Late {
				at.Status.ExitCode = end.ExitCode
			}
			setFailed(at, deadlineNote(at, end.Log), end.Time)
			return controller.Result{}, nil
		case end.Succeeded:
			setComplete(at, end)
			return controller.Result{}, nil
		case !countFailure(at, pod, end):
			return controller.Result{}, nil
		}
		if end.Deleted && !counted {
			note := messagePodDeleted.Note(end.Message, at.Status.Failed, int64(backoffLimit(at))+1)
			r.events.Event(at, corev1.EventTypeWarning, note.Reason, note.Message)
		}
		setRunning(at, now)
		return r.retry(ctx, at, pod, end, counted)
	}
	setRunning(at, now)
	pod, err := r.commands.Track(ctx, keyOf(at), pod)
	if err != nil {
		return controller.Result{}, err
	}
	problem, wait := pods.NotStarting(pod, containerName, now)
	if problem != nil {
		setNotStarting(at, problem)
	}
	requeueAfter = max(requeueAfter, wait) // at most one of them is positive
	left, limited := remaining(at, now)
	switch {
	case !limited:
		return controller.Result{RequeueAfter: requeueAfter}, nil
	case left > 0 && requeueAfter > 0:
		return controller.Result{RequeueAfter: min(left, requeueAfter)}, nil
	case left > 0:
		return controller.Result{RequeueAfter: left}, nil
	case left > -killGrace && pod.Spec.ActiveDeadlineSeconds != nil && pods.StatusOf(pod, containerName).State.Running != nil:
		return controller.Result{RequeueAfter: left + killGrace}, nil // the kubelet ends the command
	}
	if err := r.deletePod(ctx, at, pod); err != nil {
		return controller.Result{}, err
	}
	why := ""
	if problem != nil {
		why = " " + startProblem(at, problem)
	}
	setFailed(at, deadlineNote(at, why), now)
	return controller.Result{}, nil
}

// killGrace is how long the kubelet may take to end a command after activeDeadlineSeconds. It first gives the command
// 30 s to end by itself. After killGrace, the operator deletes the Pod.
const killGrace = time.Minute

// endingOf returns how the command in a Pod ended, or nil. requeueAfter is positive if time alone can change the
// result.
func endingOf(pod *corev1.Pod, now time.Time) (end *pods.Ending, requeueAfter time.Duration) {
	if end = pods.EndingOf(pod, containerName); end != nil {
		return end, 0
	}
	return pods.LostOf(pod, now)
}

// retry releases a failed Pod once the failure is stored, and deletes the Pod after the delay, so that the next Pod can be
// created. Until then the Pod and its log stay, unless somebody has deleted the Pod.
func (r *reconciler) retry(ctx context.Context, at *v1.At, pod *corev1.Pod, end *pods.Ending, counted bool) (controller.Result, error) {
	now := r.clock.Now()
	if left, limited := remaining(at, now); limited && left <= 0 {
		setFailed(at, deadlineNote(at, ""), now)
		return controller.Result{}, nil
	}
	if !counted {
		return controller.Continue(), nil // once the status that counts the failure is stored
	}
	pod, err := r.commands.Release(ctx, keyOf(at), pod)
	if err != nil {
		return controller.Result{}, err
	}
	if wait := end.Time.Add(retryDelay(at.Status.Failed)).Sub(now); wait > 0 {
		if left, limited := remaining(at, now); limited {
			wait = min(wait, left)
		}
		return controller.Result{RequeueAfter: wait}, nil
	}
	return controller.Result{}, r.deletePod(ctx, at, pod)
}

// expire deletes a finished At after ttlSecondsAfterFinished, even if its Pod cannot be released before: garbage
// collection deletes the Pod, and Release releases it then.
func (r *reconciler) expire(ctx context.Context, at *v1.At) (controller.Result, error) {
	setDone(at)
	left, limited := expiry(at, r.clock.Now())
	if err := r.endPod(ctx, at); err != nil && (!limited || left > 0) {
		return controller.Result{}, err
	}
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

// endPod releases the Pod of an At that is Done. If the command still runs, endPod deletes the Pod: the process that created
// the Pod was suspended before it sent the request, and another process led meanwhile.
func (r *reconciler) endPod(ctx context.Context, at *v1.At) error {
	pod, err := r.commands.Find(ctx, keyOf(at), podName(at))
	if err != nil || pod == nil || !metav1.IsControlledBy(pod, at) {
		return err
	}
	if pod, err = r.commands.Release(ctx, keyOf(at), pod); err != nil || pods.EndingOf(pod, containerName) != nil {
		return err
	}
	return r.deletePod(ctx, at, pod)
}

// deletePod deletes a Pod. The precondition is the observed version, so that a Pod that has succeeded
// in the meantime is not deleted.
func (r *reconciler) deletePod(ctx context.Context, at *v1.At, pod *corev1.Pod) error {
	if pod.DeletionTimestamp != nil || r.tracker.IsDeleted(keyOf(at), pod.Name, pod.UID) {
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
	r.tracker.Deleted(keyOf(at), pod.Name, pod.UID)
	return nil
}

func keyOf(at *v1.At) controller.Key { return controller.Key{Namespace: at.Namespace, Name: at.Name} }

// deadlineNote returns the reason and message after activeDeadlineSeconds. more follows the message.
func deadlineNote(at *v1.At, more string) controller.Note {
	note := messageDeadline.Note(*at.Spec.ActiveDeadlineSeconds)
	note.Message += more
	return note
}

// lookAgain is how often a Pod that the cache lacks is read from the API server.
const lookAgain = 30 * time.Second
