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
	err := pods.Refused(podName(at), last.Err, refusalAdvice(at, last.Err), after)
	summarize(at, controller.StateProgressing, controller.Note{Reason: controller.ReasonOf(err), Message: err.Error()})
	return err
}

// refusalAdvice returns what to do about a rejected Pod, or "" if only package pods knows.
func refusalAdvice(at *v1.At, err error) string {
	if pods.ViolatesPodSecurity(err) && !restricted(at) {
		return adviceToRestrict.With()
	}
	return ""
}
