package at

import (
	"fmt"

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
	summarize(at, controller.StateProgressing, reasonRefused, message)
	if pods.ExceedsQuota(last.Err) {
		return controller.WaitFor(reasonRefused, message, after) // there is room when other Pods end
	}
	return controller.Stalled(controller.WithReason(reasonRefused, fmt.Errorf("%s", message)), after)
}

// refusalMessage returns the message of the API server, followed by advice.
func refusalMessage(at *v1.At, err error) string {
	advice := ""
	if pods.ViolatesPodSecurity(err) && !restricted(at) {
		advice = "Delete the At, and create it again with spec.restricted set to true"
	}
	return pods.RefusalMessage(podName(at), err, advice)
}
