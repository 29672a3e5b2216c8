package at

import (
	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

// refused sets the conditions of an At whose Pod is rejected, and returns the error of the
// reconcile. The phase stays Running, because phases only move forward.
func (r *reconciler) refused(at *v1.At, last controller.Refusal) error {
	now := r.clock.Now()
	after := last.Until.Sub(now)
	if left, limited := remaining(at, now); limited {
		after = min(after, left)
	}
	message := refusalMessage(at, last.Err)
	summarize(at, controller.StateProgressing, messageRefused.Note(message))
	if pods.ExceedsQuota(last.Err) {
		return messageRefused.Wait(after, message) // there is room when other Pods end
	}
	return controller.Stalled(messageRefused.Error(message), after)
}

// refusalMessage returns the message of the API server, followed by advice.
func refusalMessage(at *v1.At, err error) string {
	advice := ""
	if pods.ViolatesPodSecurity(err) && !restricted(at) {
		advice = adviceToRestrict.With()
	}
	return pods.RefusalMessage(podName(at), err, advice)
}
