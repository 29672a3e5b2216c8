package at

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

// retryBase and retryLimit bound the delay of a retry, as for a Job: 10 s, 20 s, 40 s … 6 min.
const (
	retryBase  = 10 * time.Second
	retryLimit = 6 * time.Minute
)

// lastYear is the last year, in UTC, that a time in JSON can have: there, a year has four digits.
const lastYear = 9999

// scheduledTime parses spec.schedule. Its error is Terminal.
func scheduledTime(at *v1.At) (time.Time, error) {
	due, err := time.Parse(time.RFC3339, at.Spec.Schedule)
	if err == nil && (due.UTC().Year() > lastYear || due.UTC().Year() < 1) {
		err = fmt.Errorf("the year must be from 1 to %d", lastYear)
	}
	if err != nil {
		return time.Time{}, controller.Terminal(controller.WithReason(reasonInvalidSchedule,
			fmt.Errorf("spec.schedule %q is not a time in the format of RFC 3339: %w; change it to a time such as 2026-02-10T20:30:00Z", at.Spec.Schedule, err)))
	}
	return due, nil
}

// missed reports whether startingDeadlineSeconds have passed since the scheduled time.
func missed(at *v1.At, due, now time.Time) bool {
	return at.Spec.StartingDeadlineSeconds != nil && now.After(due.Add(seconds(*at.Spec.StartingDeadlineSeconds)))
}

// remaining returns the time until activeDeadlineSeconds have passed. ok is false if the At has no deadline
// or was not started.
func remaining(at *v1.At, now time.Time) (left time.Duration, ok bool) {
	if at.Spec.ActiveDeadlineSeconds == nil || at.Status.StartTime == nil {
		return 0, false
	}
	return at.Status.StartTime.Add(seconds(*at.Spec.ActiveDeadlineSeconds)).Sub(now), true
}

// expiry returns the time until a finished At is deleted. ok is false if the operator does not delete it.
func expiry(at *v1.At, now time.Time) (left time.Duration, ok bool) {
	if at.Spec.TTLSecondsAfterFinished == nil || at.Status.CompletionTime == nil {
		return 0, false
	}
	return at.Status.CompletionTime.Add(seconds(int64(*at.Spec.TTLSecondsAfterFinished))).Sub(now), true
}

// retryDelay returns the delay before the next Pod, after the given number of failures.
func retryDelay(failed int32) time.Duration {
	delay := retryBase
	for i := int32(1); i < failed && delay < retryLimit; i++ {
		delay *= 2
	}
	return min(delay, retryLimit)
}

// seconds returns n seconds, or the longest Duration if n is more.
func seconds(n int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Second)
	return time.Duration(min(n, most)) * time.Second
}

// ending describes how the command of a Pod ended.
type ending struct {
	succeeded bool
	// late is true if the kubelet ended the command after the activeDeadlineSeconds of the Pod.
	late     bool
	exitCode *int32
	message  string
	log      string // a sentence with the last line of the log of a failed command, or ""
	time     time.Time
}

// endingOf returns how the command of pod ended, or nil if the command has not ended. A lost Pod does not
// count as failed.
func endingOf(pod *corev1.Pod) *ending {
	end := &ending{succeeded: pod.Status.Phase == corev1.PodSucceeded, time: endTime(pod)}
	failed := pod.Status.Phase == corev1.PodFailed && !lost(pod)
	if !end.succeeded && !failed {
		return nil
	}
	end.late = failed && pod.Status.Reason == deadlineExceeded
	terminated := terminatedState(pod)
	if line := pods.LastLine(terminated); failed && line != "" {
		end.log = " " + pods.LogWords + line
	}
	switch {
	case terminated != nil:
		end.exitCode = &terminated.ExitCode
		end.message = fmt.Sprintf("The command ended with exit code %d.", terminated.ExitCode) + end.log
	case pod.Status.Reason != "":
		end.message = fmt.Sprintf("The Pod failed before its command ended: %s: %s", pod.Status.Reason, pod.Status.Message)
	default:
		end.message = fmt.Sprintf("The Pod ended with phase %s.", pod.Status.Phase)
	}
	return end
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
func endTime(pod *corev1.Pod) time.Time {
	if terminated := terminatedState(pod); terminated != nil && !terminated.FinishedAt.IsZero() {
		return terminated.FinishedAt.Time
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionFalse && !condition.LastTransitionTime.IsZero() {
			return condition.LastTransitionTime.Time
		}
	}
	return pod.CreationTimestamp.Time
}

func terminatedState(pod *corev1.Pod) *corev1.ContainerStateTerminated {
	return pods.StatusOf(pod, containerName).State.Terminated
}

// stamp returns t as the API server stores it: in whole seconds, in UTC.
func stamp(t time.Time) *metav1.Time {
	return &metav1.Time{Time: t.UTC().Truncate(time.Second)}
}
