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
	const patchError = "releasing Pod default/example-pod: no response"
	runCases(t, map[string]reconcileCase{
		"a command that succeeds completes the At": {
			at: example(running), now: time.Hour, pod: pod(exited(0), besideProxy), result: controller.Continue(), writes: []string{updateStatus},
			events: []string{succeededEvent}, status: doneStatus(exitCode(0)), conditions: completeConditions(exit0Message), next: []string{patchPod},
		},
		"a command that fails makes the At fail": {
			at: example(running), now: time.Hour, pod: pod(exited(3), besideProxy), result: controller.Continue(), writes: []string{updateStatus},
			events: backoffLimitEvents(exit3Message), status: doneStatus(failedPods(1), exitCode(3)), conditions: failedConditions("BackoffLimitExceeded", exit3Message),
			next: []string{patchPod},
		},
		"a failed command is retried": {
			at: example(withBackoffLimit(1), retrying(1)), now: 70 * time.Second, pod: pod(exited(3), besideProxy), writes: []string{patchPod, deletePod}, next: []string{createPod},
		},
		"a command that succeeded before the deadline of the At completes the At": {
			at: example(running, withActiveDeadline(90)), now: time.Hour, pod: pod(exited(0), besideProxy, endedByDeadline), result: controller.Continue(),
			writes: []string{updateStatus}, events: []string{succeededEvent}, status: doneStatus(exitCode(0)), conditions: completeConditions(exit0Message),
		},
		"a command that failed before the deadline of the At makes the At fail": {
			at: example(running, withActiveDeadline(90)), now: time.Hour, pod: pod(exited(3), besideProxy, endedByDeadline), result: controller.Continue(),
			writes: []string{updateStatus}, events: backoffLimitEvents(exit3Message), status: doneStatus(failedPods(1), exitCode(3)),
			conditions: failedConditions("BackoffLimitExceeded", exit3Message),
		},
		"a command that ends without an error because of the deadline exceeds it": {
			at: example(running, withActiveDeadline(60)), now: time.Hour, pod: pod(exited(0), endedByDeadline), result: controller.Continue(),
			writes: []string{updateStatus}, events: []string{"Warning DeadlineExceeded default/example: " + activeDeadlineMessage}, status: doneStatus(exitCode(0)),
			conditions: failedConditions("DeadlineExceeded", activeDeadlineMessage),
		},
		"a command that succeeded before somebody else ended its Pod completes the At": {
			at: example(running), now: time.Hour, pod: pod(exited(0), besideProxy, endedByDeadline), result: controller.Continue(), writes: []string{updateStatus},
			events: []string{succeededEvent}, status: doneStatus(exitCode(0)), conditions: completeConditions(exit0Message),
		},
		"a container that runs after the command is ended": {
			at: example(succeeded), now: time.Hour, pod: pod(exited(0), besideProxy), writes: []string{patchPod},
		},
		"a container of somebody else's Pod is not ended": {
			at: example(succeeded), now: time.Hour, pod: pod(exited(0), besideProxy, released, unowned),
		},
		"a container of a Pod that has just changed is ended after another read": {
			at: example(succeeded), now: time.Hour, pod: pod(exited(0), besideProxy), unobserved: func(f fixture) { f.changePod(touchPod) },
			writes: []string{patchPod}, err: conflictError, next: []string{patchPod},
		},
		"a container of a Pod that has just been deleted needs no end": {
			at: example(succeeded), now: time.Hour, pod: pod(exited(0), besideProxy), unobserved: func(f fixture) { f.Remove(pod()) },
			writes: []string{patchPod}, err: controller.AwaitDeletion().Error(),
		},
		"a container that cannot be ended is reported": {
			at: example(succeeded), now: time.Hour, pod: pod(exited(0), besideProxy), fail: map[string]error{"patch pods": errNoResponse}, err: patchError,
			writes: []string{patchPod, updateStatus}, events: []string{"Warning ReconcileError default/example: " + patchError},
			conditions: []string{
				"Complete=True CommandSucceeded: " + endedMessage, "Degraded=False AsExpected",
				"Progressing=False CommandSucceeded: " + endedMessage, "Ready=False ReconcileError: " + patchError,
			},
			next: []string{patchPod, updateStatus},
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
	controllertest.Equal(t, "writes", []string{updateStatus, updateStatus, createPod, updateStatus, patchPod}, f.Journal.Writes())
}

func TestRestartedCommandRunsOnce(t *testing.T) {
	f := newFixtureAtNoon(t)
	f.settle()
	f.exit(3)
	f.changePod(func(p *corev1.Pod) { // restartPolicy Always, which an admission webhook has set
		p.Status.Phase = corev1.PodRunning
		status := &p.Status.ContainerStatuses[0]
		status.LastTerminationState, status.State = status.State, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	})
	f.settle()
	controllertest.Equal(t, "conditions", failedConditions("BackoffLimitExceeded", exit3Message), controllertest.Conditions(f.Object()))
	controllertest.Equal(t, "activeDeadlineSeconds", ptr.To[int64](1), f.onlyPod().Spec.ActiveDeadlineSeconds)
}
