package at

import (
	"testing"
	"time"

	"k8s.io/utils/ptr"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
)

// TestStartedAtRunsOnceWhateverChanges makes changes that the API server rejects. They can be stored in another way,
// such as with an annotation of v1alpha1, or with a CRD without the validation rules.
func TestStartedAtRunsOnceWhateverChanges(t *testing.T) {
	for name, change := range map[string]func(*v1.At){
		"another command":                  func(at *v1.At) { at.Spec.Command = []string{"other"} },
		"another image":                    func(at *v1.At) { at.Spec.Image = "other:1" },
		"another schedule":                 func(at *v1.At) { at.Spec.Schedule = "2099-01-01T00:00:00Z" },
		"suspend":                          func(at *v1.At) { at.Spec.Suspend = ptr.To(true) },
		"a passed startingDeadlineSeconds": func(at *v1.At) { at.Spec.StartingDeadlineSeconds = ptr.To[int64](0) },
	} {
		runCases(t, map[string]reconcileCase{
			name + " of an At that is Running does not change its Pod": {
				at: example(running, change), now: time.Hour, pod: pod(),
			},
			name + " of an At that is Done does not run it again": {
				at: example(succeeded, change), now: time.Hour, pod: pod(exited(0), released),
			},
			name + " of an At that has failed does not run it again": {
				at: example(failed, change), now: time.Hour, pod: pod(exited(3), released),
			},
			name + " of an At that is Done without a Pod does not run it": {at: example(succeeded, change), now: time.Hour},
		})
	}
}
