package runonce

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

// Outcome is what the status of a Pod means for its command.
type Outcome struct {
	// End says how the command ended. It is nil if the command has not ended.
	End *Ending
	// Problem says why the command does not start, or is nil.
	Problem *pods.Problem
	// RequeueAfter is positive if time alone can change the outcome.
	RequeueAfter time.Duration
}

// outcomeOf returns the outcome of the command in a container of a Pod.
func outcomeOf(pod *corev1.Pod, container string, now time.Time) (o Outcome) {
	if o.End = endingOf(pod, container); o.End != nil {
		return o
	}
	if o.End, o.RequeueAfter = lostOf(pod, now); o.End != nil {
		return o
	}
	problem, requeueAfter := notStarting(pod, container, now)
	return Outcome{Problem: problem, RequeueAfter: max(o.RequeueAfter, requeueAfter)} // at most one of them is positive
}

// Ending describes how the command in a container of a Pod ended.
type Ending struct {
	// Succeeded is true if the command ended with exit code 0 and was not interrupted: see isInterrupted.
	Succeeded bool
	// Late is true if the kubelet ended the Pod after the activeDeadlineSeconds of the Pod. The command may have ended
	// before that, beside an injected container that ran until the deadline.
	Late bool
	// Deleted is true if somebody has deleted the Pod, perhaps while the command ran.
	Deleted bool
	// ExitCode is the exit code of the command. It is nil if no container ran.
	ExitCode *int32
	// Message is a sentence that says how the command ended, and the last line of its log if it failed.
	Message string
	// Log is a space and a sentence with the last line of the log of a failed command, or "".
	Log string
	// Time is when the command ended.
	Time time.Time
}

// endingOf returns how the command in a container of a Pod ended, or nil if the command has not ended. The state of the
// container decides, and not the phase of the Pod: a container that an admission webhook has added may run for ever,
// and the kubelet fails the Pod when it ends that container. The phase decides only if the container never ran.
func endingOf(pod *corev1.Pod, container string) *Ending {
	terminated := pods.FirstEnd(pods.StatusOf(pod, container))
	succeeded, failed := pod.Status.Phase == corev1.PodSucceeded, pod.Status.Phase == corev1.PodFailed
	late := failed && pod.Status.Reason == deadlineExceeded
	end := &Ending{Late: late, Deleted: isDeleted(pod), Time: endTime(pod, terminated)}
	if terminated != nil {
		interrupted := failed && isInterrupted(pod, terminated)
		succeeded, end.ExitCode = terminated.ExitCode == 0 && !interrupted, &terminated.ExitCode
		failed = !succeeded
	}
	if !succeeded && !failed {
		return nil
	}
	end.Succeeded = succeeded
	if failed && terminated != nil {
		end.Log = logOf(terminated)
	}
	switch {
	case terminated != nil && failed && end.Deleted:
		end.Message = messageEnded.With(terminated.ExitCode) + " " + messageDeleted.With(causeOf(pod)) + end.Log
	case terminated != nil && (succeeded || terminated.ExitCode != 0):
		end.Message = messageEnded.With(terminated.ExitCode) + end.Log
	case pod.Status.Reason != "":
		end.Message = messageFailed.With(pods.OneLine(pod.Status.Reason), pods.OneLine(pod.Status.Message))
	case failedInit(pod) != "":
		end.Message = failedInit(pod)
	case end.Deleted:
		end.Message = messageLost.With(causeOf(pod))
	default:
		end.Message = messagePodEnded.With(pod.Status.Phase)
	}
	return end
}

// deadlineExceeded is the reason in the status of a Pod that the kubelet ended after activeDeadlineSeconds
// (k8s.io/kubernetes, pkg/kubelet/active_deadline.go).
const deadlineExceeded = "DeadlineExceeded"

// reportTime is how long the kubelet may take to report the end of a container whose Pod was deleted without a grace
// period.
const reportTime = time.Minute

// lostOf returns the ending of a command whose end nobody will report, because its Pod was deleted without a grace
// period: by force, or because its node is gone. It returns nil for other Pods, and within reportTime after the
// deletion if the command may still run. requeueAfter is positive if time alone can change the result.
func lostOf(pod *corev1.Pod, now time.Time) (end *Ending, requeueAfter time.Duration) {
	if pod.DeletionTimestamp == nil || ptr.Deref(pod.DeletionGracePeriodSeconds, 1) > 0 {
		return nil, 0
	}
	scheduled := pods.ConditionOf(pod, corev1.PodScheduled).Status == corev1.ConditionTrue
	mayRun := scheduled || pod.Status.Phase == corev1.PodRunning
	if requeueAfter = pod.DeletionTimestamp.Add(reportTime).Sub(now); mayRun && requeueAfter > 0 {
		return nil, requeueAfter
	}
	return &Ending{Deleted: true, Time: pod.DeletionTimestamp.Time, Message: messageLost.With(causeOf(pod))}, 0
}

// isInterrupted reports whether a container of a failed Pod ended after the cluster had decided to end the Pod, for
// example because the node ran out of memory or was shut down. Many programs then end with exit code 0 without having
// done their work.
func isInterrupted(pod *corev1.Pod, terminated *corev1.ContainerStateTerminated) bool {
	c := disruptionOf(pod)
	return c.Status != "" && !terminated.FinishedAt.Before(&c.LastTransitionTime)
}

// isDeleted reports whether a Pod is being deleted, or the Pod garbage collector is about to delete it.
func isDeleted(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil || disruptionOf(pod).Reason == deletionByPodGC
}

// causeOf returns a colon and the reason why a Pod is being deleted, for example a drain, or "" if it is not known.
func causeOf(pod *corev1.Pod) string {
	if c := disruptionOf(pod); c.Message != "" {
		return ": " + strings.TrimRight(pods.OneLine(c.Message), ".")
	}
	return ""
}

// disruptionOf returns the condition DisruptionTarget of a Pod. It is empty unless the condition is True.
func disruptionOf(pod *corev1.Pod) corev1.PodCondition {
	if c := pods.ConditionOf(pod, corev1.DisruptionTarget); c.Status == corev1.ConditionTrue {
		return c
	}
	return corev1.PodCondition{}
}

// deletionByPodGC is the reason of the condition that the Pod garbage collector sets on the Pods of a
// missing node before it deletes them (k8s.io/kubernetes, pkg/controller/podgc).
const deletionByPodGC = "DeletionByPodGC"

// endTime returns the time at which a Pod ended. It depends only on the Pod, so that every reconcile gets
// the same time. If the node rejected the Pod, no container ended. endTime then returns the time of the
// deletion of the Pod, or the time at which the Pod became not ready, or the time of its creation.
func endTime(pod *corev1.Pod, terminated *corev1.ContainerStateTerminated) time.Time {
	if terminated != nil && !terminated.FinishedAt.IsZero() {
		return terminated.FinishedAt.Time
	}
	if pod.DeletionTimestamp != nil {
		return pod.DeletionTimestamp.Time
	}
	ready := pods.ConditionOf(pod, corev1.PodReady)
	if ready.Status == corev1.ConditionFalse && !ready.LastTransitionTime.IsZero() {
		return ready.LastTransitionTime.Time
	}
	return pod.CreationTimestamp.Time
}

// notStarting returns why a container of a Pod does not start, or nil. requeueAfter is positive if time alone can
// change the result.
func notStarting(pod *corev1.Pod, container string, now time.Time) (found *pods.Problem, requeueAfter time.Duration) {
	status := pods.StatusOf(pod, container)
	if found = pods.Blocked(status); found != nil {
		return found, 0
	}
	if status.State.Running == nil && status.State.Terminated == nil { // the command has not started
		if found, requeueAfter = pods.Injected(pod, container, now); found != nil || requeueAfter > 0 {
			return found, requeueAfter
		}
	}
	return pods.Unschedulable(pod, now)
}

// failedInit returns a message about the init container that made a Pod fail before the container of the command
// started, or "". The restartPolicy of the Pod is Never.
func failedInit(pod *corev1.Pod) string {
	for _, status := range pod.Status.InitContainerStatuses {
		ended := status.State.Terminated
		if ended == nil || ended.ExitCode == 0 {
			continue
		}
		message := messageInjectedEnded.With(status.Name, pods.OneLine(status.Image), ended.ExitCode)
		return message + logOf(ended)
	}
	return ""
}

// logOf returns a space and a sentence with the last line of the log of an ended container, or "".
func logOf(ended *corev1.ContainerStateTerminated) string {
	if sentence := pods.LogOf(ended); sentence != "" {
		return " " + sentence
	}
	return ""
}
