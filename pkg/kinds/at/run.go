package at

import (
	"context"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
	"windlass.dev/windlass/pkg/kinds/internal/runonce"
)

// step is what a Running At does next.
type step int

const (
	stepWait     step = iota // wait until the scheduled time
	stepCreate               // create the Pod
	stepMiss                 // fail because the deadline has passed, unless the API server has a Pod
	stepConflict             // report the Pod of somebody else
	stepWatch                // wait for the end of the command
	stepStop                 // delete the Pod, and fail because the deadline has passed
	stepComplete             // complete, because the command has succeeded
	stepExceed               // fail because the command ended at the deadline
	stepFail                 // fail because no attempt is left
	// Steps after a failed attempt, if another attempt is left.
	stepGiveUp  // fail because the deadline has passed
	stepCount   // store the failure
	stepDelay   // release the Pod, and wait for the next attempt
	stepReplace // delete the Pod, so that the next Pod can be created
)

// killGrace returns how long the kubelet may take to end the command of a Pod after activeDeadlineSeconds: the grace
// period of the Pod, in which the command can end by itself, and 30 s. Afterwards, the operator deletes the Pod.
func killGrace(pod *corev1.Pod) time.Duration {
	grace := ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
	return seconds(min(max(grace, 0), math.MaxInt32)) + 30*time.Second
}

// decide returns the next step of a Running At. requeueAfter is positive if time alone can change the step.
func decide(at *v1.At, pod runonce.State, now time.Time) (next step, requeueAfter time.Duration) {
	left, limited := remaining(at, now)
	late := limited && left <= 0
	switch {
	case pod.Pod == nil && late:
		return stepMiss, 0
	case pod.Pod == nil && now.Before(startsFrom(at)): // only if a user has edited the status
		return stepWait, startsFrom(at).Sub(now)
	case pod.Pod == nil:
		return stepCreate, 0
	case !pod.Own:
		return stepConflict, 0
	case pod.End != nil:
		return decideEnded(at, pod, now)
	case !late:
		return stepWatch, pods.Earliest(pod.RequeueAfter, left)
	case left > -killGrace(pod.Pod) && pod.Pod.Spec.ActiveDeadlineSeconds != nil &&
		pods.StatusOf(pod.Pod, containerName).State.Running != nil:
		return stepWatch, left + killGrace(pod.Pod) // the kubelet ends the command
	}
	return stepStop, 0
}

// decideEnded is decide for a Pod whose command has ended. A failure is stored before its Pod is released. The Pod and
// its log stay until the next attempt.
func decideEnded(at *v1.At, pod runonce.State, now time.Time) (next step, requeueAfter time.Duration) {
	end := pod.End
	left, limited := remaining(at, now)
	switch {
	case exceeded(at, end):
		return stepExceed, 0
	case end.Succeeded:
		return stepComplete, 0
	case failuresWith(at, pod.Pod) > backoffLimit(at):
		return stepFail, 0
	case limited && left <= 0:
		return stepGiveUp, 0
	case !isCounted(at, pod.Pod):
		return stepCount, 0
	}
	if wait := end.Time.Add(retryDelay(at.Status.Failed)).Sub(now); wait > 0 {
		return stepDelay, pods.Earliest(wait, left)
	}
	return stepReplace, 0
}

// run takes the next step of a Running At.
func (r *reconciler) run(ctx context.Context, at *v1.At, pod runonce.State) (result controller.Result, err error) {
	if pod.Own {
		if pod, err = r.commands.Relabel(ctx, pod, podLabels(at)); err != nil {
			return result, err
		}
	}
	next, requeueAfter := decide(at, pod, r.clock.Now())
	result, err = r.act(ctx, at, pod, next)
	if err == nil && at.Status.Phase != v1.AtDone && result == (controller.Result{}) {
		result.RequeueAfter = pod.Recheck(requeueAfter)
	}
	return result, err
}

// act takes a step of a Running At.
func (r *reconciler) act(
	ctx context.Context, at *v1.At, pod runonce.State, next step) (result controller.Result, err error) {
	now, end := r.clock.Now(), pod.End
	if next >= stepGiveUp {
		r.recordFailure(at, pod)
	}
	switch next {
	case stepWait:
	case stepCreate:
		return r.start(ctx, at)
	case stepMiss:
		if pod, err = r.commands.Live(ctx, at); err == nil && pod.Own {
			return r.run(ctx, at, pod)
		}
		if err == nil {
			setFailed(at, deadlineNote(at, ""), now)
		}
	case stepConflict:
		if err = r.commands.ReleaseUnowned(ctx, pod); err == nil {
			err = children.Owner{Object: at, Kind: v1.SchemeGroupVersion.WithKind("At")}.Taken("Pod", pod.Pod)
		}
	case stepWatch, stepStop:
		err = r.watch(ctx, at, pod, next)
	case stepExceed:
		if end.Late {
			at.Status.ExitCode = end.ExitCode
		}
		setFailed(at, deadlineNote(at, end.Log), end.Time)
	case stepComplete:
		setComplete(at, end)
	case stepFail:
		countFailure(at, pod)
		setFailed(at, messageFailed.Note(end.Message), end.Time)
	case stepGiveUp:
		setFailed(at, deadlineNote(at, ""), now)
	case stepCount:
		result = controller.Continue() // once the status that counts the failure is stored
	case stepDelay:
		_, err = r.commands.ReleasePod(ctx, pod)
	case stepReplace:
		err = r.commands.Remove(ctx, pod)
	}
	return result, err
}

// watch reports in the status whether the command has started, and restores the finalizer of the Pod. If next is
// stepStop, watch then deletes the Pod and fails the At. The only other value of next is stepWatch.
func (r *reconciler) watch(ctx context.Context, at *v1.At, pod runonce.State, next step) error {
	setRunning(at, r.clock.Now())
	pod, err := r.commands.Track(ctx, pod)
	if err != nil {
		return err
	}
	why := ""
	if pod.Problem != nil {
		setNotStarting(at, pod.Problem)
		why = " " + startProblem(at, pod.Problem)
	}
	if next == stepStop {
		if err = r.commands.Delete(ctx, pod); err == nil {
			setFailed(at, deadlineNote(at, why), r.clock.Now())
		}
	}
	return err
}

// recordFailure counts the failure of a Pod in the status of an At that has an attempt left. It emits an Event if
// somebody has deleted the Pod.
func (r *reconciler) recordFailure(at *v1.At, pod runonce.State) {
	counted := isCounted(at, pod.Pod)
	countFailure(at, pod)
	if pod.End.Deleted && !counted {
		note := messagePodDeleted.Note(pod.End.Message, at.Status.Failed, int64(backoffLimit(at))+1)
		r.events.Event(at, corev1.EventTypeWarning, note.Reason, note.Message)
	}
	setRunning(at, r.clock.Now())
}
