package at

import (
	"math"
	"testing"
	"time"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/controller"
)

const (
	deletedMessage = "The command ended with exit code 143. The Pod was deleted."
	lostMessage    = "The Pod was deleted before its command ended."
	exit3Message   = "The command ended with exit code 3."
	pullMessage    = "Pod example-pod does not start: the image busybox:1.37 cannot be pulled. See `kubectl describe " +
		"pod -n default example-pod`."
	noRoomMessage = "Pod example-pod does not start: the scheduler found no node for the Pod. See `kubectl describe pod " +
		"-n default example-pod`. The scheduler says: no room."
	retryingMessage = "1 of 2 attempts failed. The next attempt follows."
	retryingEvent   = "Normal Retrying default/example: " + retryingMessage
	deletePodError  = "deleting Pod default/example-pod: no response"

	// conflictError is a part of the error of a deletion whose precondition does not hold.
	conflictError = "the precondition does not hold"
)

func backoffLimitEvents(message string) []string {
	return []string{"Warning BackoffLimitExceeded default/example: " + message}
}

func TestReconcileRunningAt(t *testing.T) {
	runCases(t, map[string]reconcileCase{
		"a running Pod is awaited": {
			at: example(running), now: time.Hour, pod: pod(),
		},
		"a Pod that succeeds completes the At": {
			at: example(running), now: time.Hour, pod: pod(exited(0)), result: controller.Continue(), writes: []string{
				updateStatus,
			},
			events: []string{succeededEvent}, status: doneStatus(exitCode(0)), conditions: completeConditions(exit0Message),
		},
		"a running Pod without its finalizer gets it again": {
			at: example(running), now: time.Hour, pod: pod(released), writes: []string{patchPod},
		},
		"a running Pod without its finalizer that is being deleted is awaited": {
			at: example(running), now: time.Hour, pod: pod(released, terminating),
		},
		"an image that cannot be pulled is reported": {
			at: example(running), pod: pod(waiting("ErrImagePull")), writes: []string{updateStatus},
			events:     []string{"Warning PodNotStarting default/example: " + pullMessage},
			conditions: degradedConditions("PodNotStarting", pullMessage),
		},
		"an image that still cannot be pulled is not reported again with another reason": {
			at: example(notStarting), pod: pod(waiting("ImagePullBackOff")),
		},
		"an At is Running once the image is pulled": {
			at: example(notStarting), pod: pod(), writes: []string{updateStatus},
			events: []string{runningEvent}, conditions: progressingConditions("Running", runningMessage),
		},
		"a Pod that is unschedulable for a minute is reported": {
			at: example(running), now: time.Minute, pod: pod(unschedulable), writes: []string{updateStatus},
			events:     []string{"Warning PodNotStarting default/example: " + noRoomMessage},
			conditions: degradedConditions("PodNotStarting", noRoomMessage),
		},
		"a failed command is reported with the last line of its log": {
			at: example(running), now: time.Hour, pod: pod(exited(3), withLog("migrating\nERROR: no table orders\n")),
			result: controller.Continue(), writes: []string{updateStatus},
			events: backoffLimitEvents(exit3Message + " The last line of its log: ERROR: no table orders"),
			status: doneStatus(failedPods(1), exitCode(3)),
			conditions: failedConditions("BackoffLimitExceeded", exit3Message+" The last line of its log: ERROR: no "+
				"table orders"),
		},
	})
}

func TestActiveDeadline(t *testing.T) {
	exceeded := []string{"Warning DeadlineExceeded default/example: " + activeDeadlineMessage}
	conditions := failedConditions("DeadlineExceeded", activeDeadlineMessage)
	runCases(t, map[string]reconcileCase{
		"a Pod that the kubelet ended at the deadline is kept with its log": {
			at: example(running, withActiveDeadline(60), withBackoffLimit(3)), now: 80 * time.Second,
			pod: pod(exited(137), withLog("still migrating"), endedByDeadline), result: controller.Continue(),
			writes: []string{updateStatus}, events: []string{
				"Warning DeadlineExceeded default/example: " + activeDeadlineMessage + " The last line of its log: still migrating",
			},
			status:     doneStatus(exitCode(137)),
			conditions: failedConditions("DeadlineExceeded", activeDeadlineMessage+" The last line of its log: still migrating"),
		},
		"an exceeded deadline says why the Pod has not started": {
			at: example(notStarting, withActiveDeadline(60)), now: time.Minute, pod: pod(waiting("ImagePullBackOff")),
			result: controller.Continue(), writes: []string{deletePod, updateStatus},
			events: []string{
				"Warning DeadlineExceeded default/example: " + activeDeadlineMessage + " Pod example-pod does not " +
					"start: the image busybox:1.37 cannot be pulled.",
			},
			status: doneStatus(),
			conditions: failedConditions("DeadlineExceeded", activeDeadlineMessage+" Pod example-pod does not start: "+
				"the image busybox:1.37 cannot be pulled."),
		},
		"an exceeded deadline does not delete a Pod that has just succeeded": {
			at: example(running, withActiveDeadline(60)), now: time.Minute, pod: pod(), unobserved: func(f fixture) {
				f.changePod(exited(0))
			},
			writes: []string{deletePod}, err: conflictError, next: []string{updateStatus},
		},
		"an exceeded deadline awaits the event of a Pod that has just been deleted": {
			at: example(running, withActiveDeadline(60)), now: time.Minute, pod: pod(), unobserved: func(f fixture) {
				f.Remove(pod())
			},
			writes: []string{deletePod}, err: controller.ErrDeletionNotObserved.Error(), next: []string{updateStatus},
		},
		"an exceeded deadline does not delete a Pod that is being deleted": {
			at: example(running, withActiveDeadline(60)), now: time.Minute, pod: pod(terminating), result: controller.Continue(),
			writes: []string{updateStatus}, events: exceeded, status: doneStatus(), conditions: conditions,
		},
		"an exceeded deadline cancels the remaining retries": {
			at: example(withBackoffLimit(1), retrying(1), withActiveDeadline(60)), now: 65 * time.Second,
			pod: pod(exited(3)), result: controller.Continue(),
			writes: []string{updateStatus}, events: exceeded, status: doneStatus(completedAt(noon.Add(65*time.Second)),
				failedPods(1), exitCode(3)), conditions: conditions,
		},
	})
}

func TestReconcileFailedPodWithRetriesLeft(t *testing.T) {
	const exit4Message = "The command ended with exit code 4."
	const manyRetriesMessage = "1 of 2147483648 attempts failed. The next attempt follows."
	conditions := progressingConditions("Retrying", retryingMessage)
	runCases(t, map[string]reconcileCase{
		"a failure is counted, and its Pod is not deleted before the delay": {
			at: example(running, withBackoffLimit(1)), now: time.Minute, pod: pod(exited(3)), result: controller.Continue(),
			writes: []string{updateStatus}, events: []string{retryingEvent},
			status: runningStatus(failedPods(1), exitCode(3)), conditions: conditions, next: []string{patchPod},
		},
		"the Pod of a failure that an earlier process stored is deleted before the next Pod is created": {
			at: example(withBackoffLimit(1), retrying(1)), now: 70 * time.Second, pod: pod(exited(3)), writes: []string{
				patchPod, deletePod,
			}, next: []string{createPod},
		},
		"a failed Pod that is being deleted is released": {
			at: example(withBackoffLimit(1), retrying(1)), now: time.Hour, pod: pod(exited(3), terminating),
			writes: []string{patchPod}, next: []string{createPod},
		},
		"a failed Pod that has just changed is read again before it is deleted": {
			at: example(withBackoffLimit(1), retrying(1)), now: time.Hour, pod: pod(exited(3)),
			unobserved: func(f fixture) { f.changePod(touchPod) },
			writes:     []string{patchPod}, err: conflictError, next: []string{patchPod, deletePod},
		},
		"the failure of the second Pod is counted as the second": {
			at: example(withBackoffLimit(1), retrying(1)), now: time.Hour, pod: pod(exited(4), withAttempt("1")),
			result: controller.Continue(),
			writes: []string{updateStatus}, events: backoffLimitEvents(exit4Message),
			status:     doneStatus(failedPods(2), exitCode(4)),
			conditions: failedConditions("BackoffLimitExceeded", exit4Message),
		},
		"the largest number of attempts is reported correctly": {
			at: example(running, withBackoffLimit(math.MaxInt32)), now: time.Minute, pod: pod(exited(3)),
			result: controller.Continue(),
			writes: []string{updateStatus}, events: []string{"Normal Retrying default/example: " + manyRetriesMessage},
			status:     runningStatus(failedPods(1), exitCode(3)),
			conditions: progressingConditions("Retrying", manyRetriesMessage), next: []string{patchPod},
		},
	})
}

func TestReconcileFinishedAt(t *testing.T) {
	const deleteAtError = "deleting At default/example, whose ttlSecondsAfterFinished has passed: no response"
	failedWith := func(err string) []string {
		lines := failedConditions("BackoffLimitExceeded", endedMessage)
		lines[3] = "Ready=False ReconcileError: " + err
		return lines
	}
	runCases(t, map[string]reconcileCase{
		"an At is Ready again after an earlier error of its deletion": {
			at: example(succeeded, undeletable), now: time.Hour, writes: []string{updateStatus},
			events:     []string{"Normal CommandSucceeded default/example: " + endedMessage},
			conditions: completeConditions(endedMessage),
		},
		"a Pod that an outdated process created is deleted": {
			at: example(failed), now: time.Hour, pod: pod(), writes: []string{patchPod, deletePod},
		},
		"a Pod of somebody else is not deleted": {
			at: example(failed), now: time.Hour, pod: pod(released, unowned),
		},
		"a Pod of an outdated process that cannot be deleted is reported": {
			at: example(failed), now: time.Hour, pod: pod(released), fail: map[string]error{
				"delete pods": errNoResponse,
			}, err: deletePodError,
			writes: []string{deletePod, updateStatus}, events: []string{
				"Warning ReconcileError default/example: " + deletePodError,
			},
			conditions: failedWith(deletePodError), next: []string{deletePod, updateStatus},
		},
		"a finished At of v1alpha1 without times keeps its status": {
			at: example(withPhase(v1.AtDone), withTTL(0)), now: time.Hour, writes: []string{updateStatus},
			status: &v1.AtStatus{ObservedGeneration: 1, Phase: v1.AtDone}, conditions: []string{"Degraded=False AsExpected"},
		},
		"an At is not deleted before its TTL has passed": {
			at: example(succeeded, withTTL(90)), now: 2 * time.Minute, result: controller.Result{RequeueAfter: 30 * time.Second},
		},
		"an At is deleted once its TTL has passed": {
			at: example(succeeded, withTTL(90)), now: 150 * time.Second, writes: []string{deleteAt}, deleted: true,
		},
		"an At without time to live is deleted at once": {
			at: example(failed, withTTL(0)), now: time.Minute, writes: []string{deleteAt}, deleted: true,
		},
		"an At whose TTL has just been extended is not deleted": {
			at: example(succeeded, withTTL(0)), unobserved: func(f fixture) { f.Change(withTTL(math.MaxInt32)) }, now: time.Hour,
			writes: []string{deleteAt}, err: conflictError, next: []string{updateStatus}, // because the generation has changed
		},
		"the event of an At that a user has just deleted is awaited": {
			at: example(succeeded, withTTL(0)), unobserved: func(f fixture) { f.Remove(f.Object()) }, now: time.Hour,
			writes: []string{deleteAt}, err: controller.ErrDeletionNotObserved.Error(),
		},
		"an At that cannot be deleted is reported": {
			at: example(failed, withTTL(0)), now: time.Hour, fail: map[string]error{
				"delete ats": errNoResponse,
			}, err: deleteAtError,
			writes: []string{deleteAt, updateStatus}, events: []string{
				"Warning ReconcileError default/example: " + deleteAtError,
			},
			conditions: failedWith(deleteAtError), next: []string{deleteAt, updateStatus},
		},
	})
}
