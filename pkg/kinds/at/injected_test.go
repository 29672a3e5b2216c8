package at

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

// TestInjectedContainerDoesNotDelayEnd has Pods to which an admission webhook has added a container that never ends.
func TestInjectedContainerDoesNotDelayEnd(t *testing.T) {
	runCases(t, map[string]reconcileCase{
		"a failed command is retried": {
			at: example(withBackoffLimit(1), retrying(1)), now: 70 * time.Second, pod: pod(exited(3), besideProxy),
			writes: []string{patchPod, deletePod}, next: []string{createPod},
		},
		"a container that runs after the command is ended": {
			at: example(succeeded), now: time.Hour, pod: pod(exited(0), besideProxy), writes: []string{patchPod},
		},
		"a container of somebody else's Pod is not ended": {
			at: example(succeeded), now: time.Hour, pod: pod(exited(0), besideProxy, released, unowned),
		},
		"a container of a Pod that has just been deleted needs no end": {
			at: example(succeeded), now: time.Hour, pod: pod(exited(0), besideProxy), unobserved: func(f fixture) {
				f.Remove(pod())
			},
			writes: []string{patchPod}, err: controller.ErrDeletionNotObserved.Error(),
		},
	})
}

func TestInjectedContainerIsEndedOnceAndLogStays(t *testing.T) {
	f := newFixtureAtNoon(t)
	f.settle()
	f.exit(0)
	f.changePod(besideProxy)
	f.settle()
	controllertest.Equal(t, "phase while the injected container runs", v1.AtDone, f.Object().Status.Phase)
	controllertest.Equal(t, "activeDeadlineSeconds", ptr.To[int64](1), f.onlyPod().Spec.ActiveDeadlineSeconds)
	f.changePod(func(p *corev1.Pod) { p.Status.Phase, p.Status.Reason = corev1.PodFailed, "DeadlineExceeded" })
	f.settle()
	controllertest.Equal(t, "conditions", completeConditions(exit0Message), controllertest.Conditions(f.Object()))
	controllertest.Equal(t, "writes", []string{updateStatus, updateStatus, createPod, updateStatus, patchPod},
		f.Journal.Writes())
}
