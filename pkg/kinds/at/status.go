package at

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/conditions"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
	"windlass.dev/windlass/pkg/kinds/internal/runonce"
)

func setPending(at *v1.At, due time.Time) {
	at.Status.Phase = v1.AtPending
	at.Status.ScheduledTime = stamp(due)
	if suspended(at) {
		summarize(at, controller.StateIdle, messageSuspended.Note())
		return
	}
	summarize(at, controller.StateProgressing, messageScheduled.Note(due.UTC().Format(time.RFC3339)))
}

func setRunning(at *v1.At, now time.Time) {
	at.Status.Phase = v1.AtRunning
	at.Status.PodName = podName(at)
	if at.Status.StartTime == nil {
		at.Status.StartTime = stamp(now)
	}
	note := messageRunning.Note(podName(at))
	if at.Status.Failed > 0 {
		note = messageRetrying.Note(at.Status.Failed, int64(backoffLimit(at))+1)
	}
	summarize(at, controller.StateProgressing, note)
}

// setNotStarting sets the conditions for a Pod that does not start.
func setNotStarting(at *v1.At, why *pods.Problem) {
	note := messageNotStarting.Note(startProblem(at, why), at.Namespace, podName(at))
	note.Message = why.WithWords(note.Message, at.Status.Conditions)
	summarize(at, controller.StateDegraded, note)
}

func startProblem(at *v1.At, why *pods.Problem) string {
	return messageProblem.With(podName(at), why.Message)
}

func summarize(at *v1.At, state controller.State, note controller.Note) {
	controller.Summary{State: state, Note: note}.SetOn(at)
}

func setComplete(at *v1.At, end *runonce.Ending) {
	at.Status.Phase = v1.AtDone
	at.Status.CompletionTime = stamp(end.Time)
	at.Status.ExitCode = end.ExitCode
	note := messageSucceeded.Note(end.Message)
	conditions.True(&at.Status.Conditions, v1.AtComplete, note.Reason, note.Message)
	setDone(at)
}

func setFailed(at *v1.At, note controller.Note, ended time.Time) {
	at.Status.Phase = v1.AtDone
	at.Status.CompletionTime = stamp(ended)
	conditions.True(&at.Status.Conditions, v1.AtFailed, note.Reason, note.Message)
	setDone(at)
}

// setDone sets the conditions that follow from the condition Complete or Failed of a finished At.
func setDone(at *v1.At) {
	if failed := conditions.Find(at.Status.Conditions, v1.AtFailed); failed != nil {
		summarize(at, controller.StateStalled, controller.Note{Reason: failed.Reason, Message: failed.Message})
	} else if complete := conditions.Find(at.Status.Conditions, v1.AtComplete); complete != nil {
		summarize(at, controller.StateReady, controller.Note{Reason: complete.Reason, Message: complete.Message})
	}
}

// deadlineNote returns the reason and message after activeDeadlineSeconds. more follows the message.
func deadlineNote(at *v1.At, more string) controller.Note {
	note := messageDeadline.Note(*at.Spec.ActiveDeadlineSeconds)
	note.Message += more
	return note
}

// countFailure counts the failure of a Pod in the status.
func countFailure(at *v1.At, pod runonce.State) {
	at.Status.Failed = failuresWith(at, pod.Pod)
	at.Status.ExitCode = pod.End.ExitCode
}

// failuresWith returns the number of failures with the failure of a Pod. It derives the number from attemptAnnotation
// of the Pod, so that a failure that is observed twice counts once.
func failuresWith(at *v1.At, pod *corev1.Pod) int32 { return max(at.Status.Failed, attemptOf(pod)+1) }

// isCounted reports whether the status counts the failure of a Pod.
func isCounted(at *v1.At, pod *corev1.Pod) bool { return at.Status.Failed > attemptOf(pod) }

func suspended(at *v1.At) bool { return ptr.Deref(at.Spec.Suspend, false) }

func restricted(at *v1.At) bool { return ptr.Deref(at.Spec.Restricted, false) }

func backoffLimit(at *v1.At) int32 { return ptr.Deref(at.Spec.BackoffLimit, 0) }
