package pods

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Ending describes how the command of a Pod with one container ended.
type Ending struct {
	Succeeded bool
	// Late is true if the kubelet ended the command after the activeDeadlineSeconds of the Pod.
	Late bool
	// ExitCode is the exit code of the command. It is nil if no container ran.
	ExitCode *int32
	// Message is a sentence that says how the command ended, and the last line of its log if it failed.
	Message string
	// Log is a space and a sentence with the last line of the log of a failed command, or "".
	Log string
	// Time is when the command ended.
	Time time.Time
}

// EndingOf returns how the command in a container of a Pod ended, or nil if the command has not ended. A lost Pod does
// not count as failed. The restartPolicy of the Pod is Never.
func EndingOf(pod *corev1.Pod, container string) *Ending {
	terminated := StatusOf(pod, container).State.Terminated
	end := &Ending{Succeeded: pod.Status.Phase == corev1.PodSucceeded, Time: endTime(pod, terminated)}
	failed := pod.Status.Phase == corev1.PodFailed && !lost(pod)
	if !end.Succeeded && !failed {
		return nil
	}
	end.Late = failed && pod.Status.Reason == deadlineExceeded
	if line := LastLine(terminated); failed && line != "" {
		end.Log = " " + messageLog.With(line)
	}
	switch {
	case terminated != nil:
		end.ExitCode = &terminated.ExitCode
		end.Message = messageEnded.With(terminated.ExitCode) + end.Log
	case pod.Status.Reason != "":
		end.Message = messagePodFailed.With(oneLine(pod.Status.Reason), oneLine(pod.Status.Message))
	default:
		end.Message = messagePodEnded.With(pod.Status.Phase)
	}
	return end
}

// EndingBeside is EndingOf, but does not wait for other containers, which an admission webhook has added to the Pod and
// which may never end.
func EndingBeside(pod *corev1.Pod, container string) *Ending {
	terminated := StatusOf(pod, container).State.Terminated
	if terminated == nil || pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil {
		return EndingOf(pod, container)
	}
	ended := *pod
	ended.Status.Phase = corev1.PodSucceeded
	if terminated.ExitCode != 0 {
		ended.Status.Phase = corev1.PodFailed
	}
	return EndingOf(&ended, container)
}

// deadlineExceeded is the reason in the status of a Pod that the kubelet ended after activeDeadlineSeconds
// (k8s.io/kubernetes, pkg/kubelet/active_deadline.go).
const deadlineExceeded = "DeadlineExceeded"

// lost reports whether a failed Pod is being deleted, or its node is gone. It does not check whether the
// container ended before the deletion began: at the end, the kubelet deletes the Pod a second time, and
// this changes the deletionTimestamp.
func lost(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil {
		return true
	}
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == deletionByPodGC
	})
}

// deletionByPodGC is the reason of the condition that the Pod garbage collector sets on the Pods of a
// missing node before it deletes them (k8s.io/kubernetes, pkg/controller/podgc).
const deletionByPodGC = "DeletionByPodGC"

// endTime returns the time at which a Pod ended. It depends only on the Pod, so that every reconcile gets
// the same time. If the node rejected the Pod, no container ended. endTime then returns the time at which
// the Pod became not ready or, if there is none, the time of its creation.
func endTime(pod *corev1.Pod, terminated *corev1.ContainerStateTerminated) time.Time {
	if terminated != nil && !terminated.FinishedAt.IsZero() {
		return terminated.FinishedAt.Time
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionFalse && !condition.LastTransitionTime.IsZero() {
			return condition.LastTransitionTime.Time
		}
	}
	return pod.CreationTimestamp.Time
}

// NotStarting returns why a container of a Pod does not start, or nil. requeueAfter is positive if time alone can
// change the result.
func NotStarting(pod *corev1.Pod, container string, now time.Time) (found *Problem, requeueAfter time.Duration) {
	if found = Blocked(StatusOf(pod, container)); found != nil {
		return found, 0
	}
	return Unschedulable(pod, now)
}
