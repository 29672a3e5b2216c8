package at

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/conditions"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

// Reasons of conditions. A failed At has the reasons of a failed Job.
const (
	reasonScheduled       = "Scheduled"
	reasonSuspended       = "Suspended"
	reasonRunning         = "Running"
	reasonRetrying        = "Retrying"
	reasonNotStarting     = "PodNotStarting"
	reasonRefused         = "PodRefused"
	reasonSucceeded       = "CommandSucceeded"
	reasonBackoffLimit    = "BackoffLimitExceeded"
	reasonDeadline        = "DeadlineExceeded"
	reasonInvalidSchedule = "InvalidSchedule"
)

func setPending(at *v1.At, due time.Time) {
	at.Status.Phase = v1.AtPending
	at.Status.ScheduledTime = stamp(due)
	if suspended(at) {
		summarize(at, controller.StateIdle, reasonSuspended, "Set spec.suspend to false to let the command run.")
		return
	}
	summarize(at, controller.StateProgressing, reasonScheduled, fmt.Sprintf("The command runs at %s.", due.UTC().Format(time.RFC3339)))
}

func setRunning(at *v1.At, now time.Time) {
	at.Status.Phase = v1.AtRunning
	at.Status.PodName = podName(at)
	if at.Status.StartTime == nil {
		at.Status.StartTime = stamp(now)
	}
	reason, message := reasonRunning, fmt.Sprintf("Pod %s runs the command.", podName(at))
	if at.Status.Failed > 0 {
		reason = reasonRetrying
		message = fmt.Sprintf("%d of %d attempts failed. The next attempt follows.", at.Status.Failed, int64(backoffLimit(at))+1)
	}
	summarize(at, controller.StateProgressing, reason, message)
}

// setNotStarting sets the conditions for a Pod that does not start.
func setNotStarting(at *v1.At, why *pods.Problem) {
	before := ""
	if ready := conditions.Find(at.Status.Conditions, conditions.Ready); ready != nil {
		before = ready.Message
	}
	message := startProblem(at, why) + fmt.Sprintf(" See `kubectl describe pod -n %s %s`.", at.Namespace, podName(at))
	summarize(at, controller.StateDegraded, reasonNotStarting, why.WithWords(message, before))
}

func startProblem(at *v1.At, why *pods.Problem) string {
	return fmt.Sprintf("Pod %s does not start: %s.", podName(at), why.Message)
}

func summarize(at *v1.At, state controller.State, reason, message string) {
	controller.Summary{State: state, Note: controller.Note{Reason: reason, Message: message}}.SetOn(at)
}

func setComplete(at *v1.At, end *pods.Ending) {
	at.Status.Phase = v1.AtDone
	at.Status.CompletionTime = stamp(end.Time)
	at.Status.ExitCode = end.ExitCode
	conditions.True(&at.Status.Conditions, v1.AtComplete, reasonSucceeded, end.Message)
	setDone(at)
}

func setFailed(at *v1.At, reason, message string, ended time.Time) {
	at.Status.Phase = v1.AtDone
	at.Status.CompletionTime = stamp(ended)
	conditions.True(&at.Status.Conditions, v1.AtFailed, reason, message)
	setDone(at)
}

// setDone sets the conditions that follow from the condition Complete or Failed of a finished At.
func setDone(at *v1.At) {
	if failed := conditions.Find(at.Status.Conditions, v1.AtFailed); failed != nil {
		summarize(at, controller.StateStalled, failed.Reason, failed.Message)
	} else if complete := conditions.Find(at.Status.Conditions, v1.AtComplete); complete != nil {
		summarize(at, controller.StateReady, complete.Reason, complete.Message)
	}
}

// countFailure counts the failure of a Pod in the status, and reports whether another attempt follows. It
// derives the number from attemptAnnotation of the Pod, so that a failure that is observed twice counts
// once.
func countFailure(at *v1.At, pod *corev1.Pod, end *pods.Ending) (again bool) {
	at.Status.Failed = max(at.Status.Failed, attemptOf(pod)+1)
	at.Status.ExitCode = end.ExitCode
	if at.Status.Failed <= backoffLimit(at) {
		return true
	}
	setFailed(at, reasonBackoffLimit, end.Message, end.Time)
	return false
}

func suspended(at *v1.At) bool { return at.Spec.Suspend != nil && *at.Spec.Suspend }

func restricted(at *v1.At) bool { return at.Spec.Restricted != nil && *at.Spec.Restricted }

func backoffLimit(at *v1.At) int32 {
	if at.Spec.BackoffLimit == nil {
		return 0
	}
	return *at.Spec.BackoffLimit
}
