package at

import (
	"errors"
	"math"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/controller"
)

const (
	deletePod  = "delete pods default/example-pod"
	isEvicted  = "The Pod ended before the command: Evicted: The node was low on memory."
	pullFails  = "The container does not start: ImagePullBackOff; see `kubectl describe pod example-pod`."
	nextTry    = "1 of 2 tries failed; the next follows."
	isRetrying = "Normal Retrying default/example: " + nextTry
	hasFailed  = "Warning BackoffLimitExceeded default/example: "
	afterNoon  = "Done, scheduled 12:00:00, started 12:00:00, completed 12:01:00, example-pod"
)

var (
	errNoAnswer = errors.New("no answer")
	errNotFound = apierrors.NewNotFound(corev1.Resource("pods"), "example-pod")
)

// notStarting changes an At to the state after the image of its Pod could not be pulled.
func notStarting(at *v1.At) { running(at); setNotStarting(at, "ImagePullBackOff"); settled(at) }

func TestThePodOfARunningAt(t *testing.T) {
	tell(t, map[string]story{
		"that runs is waited for": {
			at: example(running), now: hour, cached: list(pod()), status: isRunnow,
		},
		"that ended well completes it": {
			at: example(running), now: hour, cached: list(pod(ended(0))), writes: []string{status}, status: afterNoon + ", exit 0",
			events: []string{"Normal CommandSucceeded default/example: " + ended0}, conditions: complete(ended0),
		},
		"that failed fails it, with the exit code": {
			at: example(running), now: hour, cached: list(pod(ended(3))), writes: []string{status}, status: afterNoon + ", failed 1, exit 3",
			events: []string{hasFailed + ended3}, conditions: failedFor("BackoffLimitExceeded", ended3),
		},
		"that was evicted fails it, without an exit code": {
			at: example(running), now: hour, cached: list(pod(evicted)), writes: []string{status}, status: afterNoon + ", failed 1",
			events: []string{hasFailed + isEvicted}, conditions: failedFor("BackoffLimitExceeded", isEvicted),
		},
		"that failed for no reason fails it": {
			at: example(running), now: hour, cached: list(pod(refused, func(p *corev1.Pod) { p.Status.Reason = "" })), writes: []string{status},
			status: "Done, scheduled 12:00:00, started 12:00:00, completed 12:00:00, example-pod, failed 1",
			events: []string{hasFailed + "The Pod ended as Failed."}, conditions: failedFor("BackoffLimitExceeded", "The Pod ended as Failed."),
		},
		"that is going while its command runs is waited for": {
			at: example(running), now: hour, cached: list(pod(told)), status: isRunnow,
		},
		"that was told to go before its command ended did not fail": {
			at: example(running), now: hour, cached: list(pod(ended(143), told)), status: isRunnow,
		},
		"that was told to go and lost its node did not fail": {
			at: example(running), now: hour, cached: list(pod(evicted, told)), status: isRunnow,
		},
		"whose node has vanished did not fail": {
			at: example(running), now: hour, cached: list(pod(evicted, orphaned)), status: isRunnow,
		},
		"that ended well although it was told to go completes it": {
			at: example(running), now: hour, cached: list(pod(ended(0), told)), writes: []string{status}, status: afterNoon + ", exit 0",
			events: []string{"Normal CommandSucceeded default/example: " + ended0}, conditions: complete(ended0),
		},
		"that is gone is made again, and nothing is counted": {
			at: example(running), now: hour, gets: []string{getAt}, writes: []string{writePod}, status: isRunnow,
		},
		"whose image cannot be pulled shows it": {
			at: example(running), cached: list(pod(waiting("ErrImagePull"))), writes: []string{status}, status: isRunnow,
			events: []string{"Normal PodNotStarting default/example: " + pullFails}, conditions: notReady("PodNotStarting", pullFails),
		},
		"whose image still cannot be pulled shows it no second time": {
			at: example(notStarting), cached: list(pod(waiting("ErrImagePull"))), status: isRunnow,
		},
		"whose image still cannot be pulled, in the other word, shows it no second time": {
			at: example(notStarting), cached: list(pod(waiting("ImagePullBackOff"))), status: isRunnow,
		},
		"whose image is there at last runs": {
			at: example(notStarting), cached: list(pod()), writes: []string{status}, status: isRunnow,
			events: []string{isRunning}, conditions: notReady("Running", runs),
		},
		"that is only being prepared has no trouble": {
			at: example(running), cached: list(pod(waiting("ContainerCreating"))), status: isRunnow,
		},
		"of an At of v1alpha1, which has no times, gives it one": {
			at: example(func(at *v1.At) { at.Status.Phase = v1.AtRunning }), now: hour, cached: list(pod()), writes: []string{status},
			status: "Running, started 13:00:00, example-pod", events: []string{isRunning}, conditions: notReady("Running", runs),
		},
	})
}

func TestTheActiveDeadline(t *testing.T) {
	exceeded := []string{"Warning DeadlineExceeded default/example: " + tooLong}
	tell(t, map[string]story{
		"ahead is a time to look again": {
			at: example(running, deadline(60)), now: 20 * time.Second, cached: list(pod()), after: 40 * time.Second, status: isRunnow,
		},
		"beyond all time is cut": {
			at: example(running, deadline(math.MaxInt64)), cached: list(pod()), after: math.MaxInt64 / time.Second * time.Second, status: isRunnow,
		},
		"past ends the very Pod that was seen": {
			at: example(running, deadline(60)), now: time.Minute, cached: list(pod()), writes: []string{deletePod, status},
			status: afterNoon, events: exceeded, conditions: failedFor("DeadlineExceeded", tooLong),
		},
		"past spares a Pod that has just ended well": {
			at: example(running, deadline(60)), now: time.Minute, cached: list(pod()), live: list(pod(ended(0), newerPod)),
			writes: []string{deletePod}, err: "it is another one, or has changed", status: isRunnow, next: []string{status},
		},
		"past waits for the event if the Pod has just gone": {
			at: example(running, deadline(60)), now: time.Minute, cached: list(pod()), live: list(), writes: []string{deletePod},
			err: controller.AwaitDeletion().Error(), status: isRunnow, conditions: notReady("Running", runs), next: []string{deletePod, status},
			refuse: map[string]error{"delete pods": errNotFound},
		},
		"past need not end a Pod that is going": {
			at: example(running, deadline(60)), now: time.Minute, cached: list(pod(told)), writes: []string{status},
			status: afterNoon, events: exceeded, conditions: failedFor("DeadlineExceeded", tooLong),
		},
		"does not count against a command that has ended": {
			at: example(running, deadline(60)), now: hour, cached: list(pod(ended(0))), writes: []string{status}, status: afterNoon + ", exit 0",
			events: []string{"Normal CommandSucceeded default/example: " + ended0}, conditions: complete(ended0),
		},
		"ahead of the next try is when to look again": {
			at: example(tries(2), retrying(1), deadline(65)), now: time.Minute, cached: list(pod(ended(3))), after: 5 * time.Second, status: isRunnow + ", failed 1, exit 3",
		},
		"past takes away the tries that are left": {
			at: example(tries(2), retrying(1), deadline(60)), now: 65 * time.Second, cached: list(pod(ended(3))), writes: []string{status},
			status: "Done, scheduled 12:00:00, started 12:00:00, completed 12:01:05, example-pod, failed 1, exit 3",
			events: exceeded, conditions: failedFor("DeadlineExceeded", tooLong),
		},
	})
}

func TestAFailureWithTriesLeft(t *testing.T) {
	counted := isRunnow + ", failed 1, exit 3"
	tell(t, map[string]story{
		"is counted, and its Pod stays for a while": {
			at: example(running, tries(2)), now: time.Minute, cached: list(pod(ended(3))), after: 10 * time.Second, writes: []string{status},
			status: counted, events: []string{isRetrying}, conditions: notReady("Retrying", nextTry),
		},
		"is counted once however often it is seen": {
			at: example(tries(2), retrying(1)), now: 69 * time.Second, cached: list(pod(ended(3))), after: time.Second, status: counted,
		},
		"seen late is stored before its Pod goes": {
			at: example(running, tries(2)), now: hour, cached: list(pod(ended(3))), writes: []string{status}, after: controller.Continue().RequeueAfter,
			status: counted, events: []string{isRetrying}, conditions: notReady("Retrying", nextTry), next: []string{deletePod},
		},
		"that was stored before a crash makes room for the next Pod": {
			at: example(tries(2), retrying(1)), now: 70 * time.Second, cached: list(pod(ended(3))), writes: []string{deletePod},
			status: counted, next: []string{writePod},
		},
		"whose Pod is going already is waited for": {
			at: example(tries(2), retrying(1)), now: hour, cached: list(pod(ended(3), told)), status: counted,
		},
		"whose Pod changed meanwhile is looked at again": {
			at: example(tries(2), retrying(1)), now: hour, cached: list(pod(ended(3))), live: list(pod(ended(3), newerPod)), writes: []string{deletePod},
			err: "it is another one, or has changed", status: counted, next: []string{deletePod},
		},
		"whose Pod cannot be deleted is shown": {
			at: example(tries(2), retrying(1)), now: hour, cached: list(pod(ended(3))), refuse: map[string]error{"delete pods": errNoAnswer}, writes: []string{deletePod, status},
			err: "deleting Pod default/example-pod: no answer", status: counted, events: []string{"Warning ReconcileError default/example: deleting Pod default/example-pod: no answer"},
			conditions: []string{"Degraded=False AsExpected", "Progressing=True Retrying: " + nextTry, "Ready=False ReconcileError: deleting Pod default/example-pod: no answer"},
			next:       []string{deletePod, status},
		},
		"of the second Pod counts as two": {
			at: example(tries(2), retrying(1)), now: hour, cached: list(pod(ended(4), attempt("1"))), writes: []string{status}, status: afterNoon + ", failed 2, exit 4",
			events: []string{hasFailed + "The command ended with exit code 4."}, conditions: failedFor("BackoffLimitExceeded", "The command ended with exit code 4."),
		},
		"is followed by a Pod that may run": {
			at: example(tries(2), retrying(1)), now: hour, cached: list(pod(attempt("1"))), status: counted,
		},
		"is followed by a Pod that may end well": {
			at: example(tries(2), retrying(1)), now: hour, cached: list(pod(attempt("1"), ended(0))), writes: []string{status}, status: afterNoon + ", failed 1, exit 0",
			events: []string{"Normal CommandSucceeded default/example: " + ended0}, conditions: complete(ended0),
		},
		"by eviction waits as any other": {
			at: example(running, tries(2)), now: time.Minute, cached: list(pod(evicted)), after: 10 * time.Second, writes: []string{status},
			status: isRunnow + ", failed 1", events: []string{isRetrying}, conditions: notReady("Retrying", nextTry),
		},
		"by eviction makes room as any other": {
			at: example(tries(2), retrying(1)), now: 70 * time.Second, cached: list(pod(evicted)), writes: []string{deletePod, status},
			status: isRunnow + ", failed 1", conditions: notReady("Retrying", nextTry), next: []string{writePod},
		},
		"by a refusal of the node waits from when the Pod was made": {
			at: example(running, tries(2)), now: time.Second, cached: list(pod(refused)), after: 9 * time.Second, writes: []string{status},
			status: isRunnow + ", failed 1", events: []string{isRetrying}, conditions: notReady("Retrying", nextTry),
		},
		"of as many tries as there can be says how many": {
			at: example(running, func(at *v1.At) { n := int32(math.MaxInt32); at.Spec.BackoffLimit = &n }), now: time.Minute, cached: list(pod(ended(3))),
			after: 10 * time.Second, writes: []string{status}, status: counted,
			events:     []string{"Normal Retrying default/example: 1 of 2147483648 tries failed; the next follows."},
			conditions: notReady("Retrying", "1 of 2147483648 tries failed; the next follows."),
		},
	})
}

func TestAFinishedAt(t *testing.T) {
	const deleteAt = "delete ats default/example"
	tell(t, map[string]story{
		"does nothing": {at: example(succeeded), now: hour, cached: list(pod(ended(0))), status: afterNoon + ", exit 0"},
		"is Ready again once what kept it from going is gone": {
			at: example(succeeded, undeletable), now: hour, writes: []string{status}, status: afterNoon + ", exit 0",
			events: []string{"Normal CommandSucceeded default/example: It is over."}, conditions: complete("It is over."),
		},
		"does nothing without its Pod, either":   {at: example(succeeded), now: hour, status: afterNoon + ", exit 0"},
		"that failed stays Degraded and Stalled": {at: example(broken), now: hour, cached: list(pod(ended(3))), status: afterNoon},
		"ends a Pod that a process has made which had not heard of it": {
			at: example(broken), now: hour, cached: list(pod()), writes: []string{deletePod}, status: afterNoon, next: []string{},
		},
		"leaves a Pod of somebody else's alone": {at: example(broken), now: hour, cached: list(pod(unowned)), status: afterNoon},
		"that cannot end such a Pod shows it": {
			at: example(broken), now: hour, cached: list(pod()), refuse: map[string]error{"delete pods": errNoAnswer}, writes: []string{deletePod, status}, status: afterNoon,
			err:    "deleting Pod default/example-pod: no answer",
			events: []string{"Warning ReconcileError default/example: deleting Pod default/example-pod: no answer"},
			conditions: []string{
				"Degraded=True BackoffLimitExceeded: It is over.", "Failed=True BackoffLimitExceeded: It is over.", "Progressing=False BackoffLimitExceeded: It is over.",
				"Ready=False ReconcileError: deleting Pod default/example-pod: no answer", "Stalled=True BackoffLimitExceeded: It is over.",
			}, next: []string{deletePod, status},
		},
		"that v1alpha1 tells of is left as it is": {
			at: example(func(at *v1.At) { at.Status.Phase = v1.AtDone }, goAfter(0)), now: hour, writes: []string{status}, status: "Done",
			conditions: []string{"Degraded=False AsExpected"},
		},
		"stays as long as it may":         {at: example(succeeded, goAfter(90)), now: 2 * time.Minute, after: 30 * time.Second, status: afterNoon + ", exit 0"},
		"goes when its time is over":      {at: example(succeeded, goAfter(90)), now: 150 * time.Second, writes: []string{deleteAt}, status: "gone"},
		"goes at once if it may not stay": {at: example(broken, goAfter(0)), now: time.Minute, writes: []string{deleteAt}, status: "gone"},
		"that changed meanwhile does not go before that was seen": {
			at: example(succeeded, goAfter(0)), onServer: func(at *v1.At) { newer(at); goAfter(math.MaxInt32)(at) }, now: hour,
			writes: []string{deleteAt}, err: "it is another one, or has changed", status: afterNoon + ", exit 0",
		},
		"that somebody has deleted is gone": {
			at: example(succeeded, goAfter(0)), onServer: func(at *v1.At) { at.Name = "another" }, now: hour, writes: []string{deleteAt}, status: "gone",
			err: controller.AwaitDeletion().Error(),
		},
		"that cannot be deleted shows it": {
			at: example(broken, goAfter(0)), now: hour, refuse: map[string]error{"delete ats": errNoAnswer}, writes: []string{deleteAt, status}, status: afterNoon,
			err:    "deleting At default/example, whose ttlSecondsAfterFinished has passed: no answer",
			events: []string{"Warning ReconcileError default/example: deleting At default/example, whose ttlSecondsAfterFinished has passed: no answer"},
			conditions: []string{
				"Degraded=True BackoffLimitExceeded: It is over.", "Failed=True BackoffLimitExceeded: It is over.", "Progressing=False BackoffLimitExceeded: It is over.",
				"Ready=False ReconcileError: deleting At default/example, whose ttlSecondsAfterFinished has passed: no answer", "Stalled=True BackoffLimitExceeded: It is over.",
			}, next: []string{deleteAt, status},
		},
	})
}
