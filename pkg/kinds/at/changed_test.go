package at

import (
	"testing"
	"time"

	"k8s.io/utils/ptr"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/controller"
)

// TestBackoffLimitCanChangeWhileAtRuns has the only field that has an effect while the command runs.
func TestBackoffLimitCanChangeWhileAtRuns(t *testing.T) {
	runCases(t, map[string]reconcileCase{
		"a higher backoffLimit allows another attempt": {
			at: example(running, withBackoffLimit(1)), now: time.Minute, pod: pod(exited(3)), result: controller.Continue(),
			writes: []string{updateStatus}, events: []string{retryingEvent}, status: runningStatus(failedPods(1), exitCode(3)),
			conditions: progressingConditions("Retrying", retryingMessage), next: []string{patchPod},
		},
		"a lower backoffLimit ends the attempts": {
			at: example(withBackoffLimit(1), retrying(1), withBackoffLimit(0)), now: time.Minute, pod: pod(exited(3)), result: controller.Continue(),
			writes: []string{updateStatus}, events: backoffLimitEvents(exit3Message), status: doneStatus(failedPods(1), exitCode(3)),
			conditions: failedConditions("BackoffLimitExceeded", exit3Message),
		},
	})
}

// TestStartedAtRunsOnceWhateverChanges has changes that the API server refuses, but which another way may have stored:
// an annotation of v1alpha1, or a CRD without the rules.
func TestStartedAtRunsOnceWhateverChanges(t *testing.T) {
	for name, change := range map[string]func(*v1.At){
		"another command":                  func(at *v1.At) { at.Spec.Command = []string{"other"} },
		"another image":                    func(at *v1.At) { at.Spec.Image = "other:1" },
		"another schedule":                 func(at *v1.At) { at.Spec.Schedule = "2099-01-01T00:00:00Z" },
		"suspend":                          func(at *v1.At) { at.Spec.Suspend = ptr.To(true) },
		"a passed startingDeadlineSeconds": func(at *v1.At) { at.Spec.StartingDeadlineSeconds = ptr.To[int64](0) },
	} {
		runCases(t, map[string]reconcileCase{
			name + " of an At that is Running does not change its Pod":    {at: example(running, change), now: time.Hour, pod: pod()},
			name + " of an At that is Done does not run it again":         {at: example(succeeded, change), now: time.Hour, pod: pod(exited(0), released)},
			name + " of an At that has failed does not run it again":      {at: example(failed, change), now: time.Hour, pod: pod(exited(3), released)},
			name + " of an At that is Done without a Pod does not run it": {at: example(succeeded, change), now: time.Hour},
		})
	}
}
