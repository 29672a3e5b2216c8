package at

import (
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/conditions"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
	"windlass.dev/windlass/pkg/kinds/internal/runonce"
)

// noon is the scheduled time of the At in most tests.
var noon = time.Date(2030, 2, 10, 12, 0, 0, 0, time.UTC)

// Messages and Events of the At that example returns.
const (
	scheduledMessage        = "The command runs at 2030-02-10T12:00:00Z."
	scheduledEvent          = "Normal Scheduled default/example: " + scheduledMessage
	runningMessage          = "Pod example-pod runs the command."
	runningEvent            = "Normal Running default/example: " + runningMessage
	exit0Message            = "The command ended with exit code 0."
	succeededEvent          = "Normal CommandSucceeded default/example: " + exit0Message
	startingDeadlineMessage = "The command was not started within 5 s of its schedule."
	activeDeadlineMessage   = "The command did not end within 60 s."
	// endedMessage is the message of an At whose command ended before the reconcile.
	endedMessage = "The command has ended."
)

var errNoResponse = errors.New("no response")

// forbidden returns the error of an API server that rejects the Pod. why is the reason in its message.
func forbidden(why string) error {
	return apierrors.NewForbidden(corev1.Resource("pods"), "example-pod", errors.New(why))
}

// example returns an At that is due at noon, after the given changes.
func example(changes ...func(*v1.At)) *v1.At {
	at := &v1.At{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "example", UID: "at-uid", ResourceVersion: "1", Generation: 1,
		},
		Spec: v1.AtSpec{Schedule: "2030-02-10T13:00:00+01:00", Command: []string{"echo", "Hello"}},
	}
	for _, change := range changes {
		change(at)
	}
	return at
}

func withSchedule(schedule string) func(*v1.At) {
	return func(at *v1.At) { at.Spec.Schedule = schedule }
}

func withSuspend(suspend bool) func(*v1.At) {
	return func(at *v1.At) { at.Spec.Suspend = &suspend }
}

func withStartingDeadline(seconds int64) func(*v1.At) {
	return func(at *v1.At) { at.Spec.StartingDeadlineSeconds = &seconds }
}

func withActiveDeadline(seconds int64) func(*v1.At) {
	return func(at *v1.At) { at.Spec.ActiveDeadlineSeconds = &seconds }
}

func withBackoffLimit(retries int32) func(*v1.At) {
	return func(at *v1.At) { at.Spec.BackoffLimit = &retries }
}

func withTTL(seconds int32) func(*v1.At) {
	return func(at *v1.At) { at.Spec.TTLSecondsAfterFinished = &seconds }
}

func withRestricted(at *v1.At) { at.Spec.Restricted = ptr.To(true) }

// withPhase returns a change that sets the phase and no other field of the status, as v1alpha1 did.
func withPhase(phase v1.AtPhase) func(*v1.At) {
	return func(at *v1.At) { at.Status.Phase = phase }
}

// storing returns a change that calls set and stores the status, as a reconcile at noon does.
func storing(set func(*v1.At)) func(*v1.At) {
	return func(at *v1.At) {
		conditions.Begin(&at.Status.Conditions)
		set(at)
		at.Status.ObservedGeneration = at.Generation
		conditions.Stamp(nil, &at.Status.Conditions, at.Generation, metav1.NewTime(noon))
	}
}

// pending changes an At to the state after its schedule was read.
var pending = storing(func(at *v1.At) { setPending(at, noon) })

// running changes an At to the state after its start at noon was stored.
var running = storing(func(at *v1.At) {
	setPending(at, noon)
	setRunning(at, noon)
})

// notStarting changes an At to the state after the image of its Pod could not be pulled.
func notStarting(at *v1.At) {
	running(at)
	storing(func(at *v1.At) {
		setNotStarting(at, &pods.Problem{Reason: "ImagePullBackOff", Message: "the image busybox:1.37 cannot be pulled"})
	})(at)
}

// retrying returns a change of an At to the state after the given number of Pods failed with exit code 3.
func retrying(failed int32) func(*v1.At) {
	return func(at *v1.At) {
		running(at)
		at.Status.Failed, at.Status.ExitCode = failed, ptr.To[int32](3)
		storing(func(at *v1.At) { setRunning(at, noon) })(at)
	}
}

// succeeded changes an At to the state after its command has succeeded.
func succeeded(at *v1.At) {
	running(at)
	storing(func(at *v1.At) {
		setComplete(at, &runonce.Ending{
			Succeeded: true, ExitCode: ptr.To[int32](0), Message: endedMessage, Time: noon.Add(time.Minute),
		})
	})(at)
}

// failed changes an At to the state after its last Pod has failed.
func failed(at *v1.At) {
	running(at)
	storing(func(at *v1.At) { setFailed(at, messageFailed.Note(endedMessage), noon.Add(time.Minute)) })(at)
}

// undeletable changes a finished At to the state after the API server has rejected its deletion.
func undeletable(at *v1.At) {
	storing(func(at *v1.At) {
		conditions.False(&at.Status.Conditions, conditions.Ready, "Forbidden", "The deletion was rejected.")
	})(at)
}

// touchAt changes an At without any effect on its reconcile.
func touchAt(at *v1.At) { at.Annotations = map[string]string{"touched": "yes"} }

// pod returns the running Pod of example, after the given changes.
func pod(changes ...func(*corev1.Pod)) *corev1.Pod {
	p, _ := desiredPod(example(), DefaultImage) // example has no podTemplate, so that it is valid
	p.UID, p.ResourceVersion = "pod-uid", "2"
	p.Status.Phase = corev1.PodRunning
	for _, change := range changes {
		change(p)
	}
	return p
}

// unlabelled removes the label by which the cache selects Pods.
func unlabelled(p *corev1.Pod) { delete(p.Labels, controller.ManagedByLabel) }

func unowned(p *corev1.Pod) { p.OwnerReferences = nil }

// released removes the finalizer, as the operator does once the status has the end of the command.
func released(p *corev1.Pod) { p.Finalizers = nil }

// forced marks a Pod that was deleted a minute after noon without a grace period.
func forced(p *corev1.Pod) {
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: noon.Add(time.Minute)}, new(int64)
}

// ownedByOther returns a function that gives a Pod another owner in the API group of At.
func ownedByOther(kind, name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: v1.SchemeGroupVersion.String(), Kind: kind, Name: name, UID: "other-uid", Controller: ptr.To(true),
		}}
	}
}

// withAttempt returns a change that sets attemptAnnotation: the number of Pods that failed before the Pod
// was created.
func withAttempt(n string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations[attemptAnnotation] = n }
}

// touchPod changes a Pod without any effect on a reconcile.
func touchPod(p *corev1.Pod) { p.Annotations["touched"] = "yes" }

// waiting returns a change of a Pod whose container has not started, for the given reason. An injected
// container is being created.
func waiting(reason string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodPending
		p.Status.ContainerStatuses = []corev1.ContainerStatus{
			{Name: "injected", State: corev1.ContainerState{
				Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"},
			}},
			{
				Name: containerName, Image: DefaultImage, State: corev1.ContainerState{
					Waiting: &corev1.ContainerStateWaiting{Reason: reason},
				},
			},
		}
	}
}

// exited returns a change of a Pod whose command exited with code a minute after noon.
func exited(code int32) func(*corev1.Pod) { return exitedAt(code, noon.Add(time.Minute)) }

func exitedAt(code int32, end time.Time) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodSucceeded
		if code != 0 {
			p.Status.Phase = corev1.PodFailed
		}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: containerName, State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: code, FinishedAt: metav1.NewTime(end)},
		}}}
	}
}

// besideProxy adds an injected container that runs, which keeps the Pod running.
func besideProxy(p *corev1.Pod) {
	p.Status.Phase = corev1.PodRunning
	p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
		Name: "proxy", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
	})
}

// withLog sets the termination message of an ended container, which has the end of the log.
func withLog(log string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State.Terminated.Message = log }
}

// endedByDeadline sets the reason of a Pod that the kubelet ended after activeDeadlineSeconds.
func endedByDeadline(p *corev1.Pod) {
	p.Status.Phase, p.Status.Reason = corev1.PodFailed, "DeadlineExceeded"
}

// started sets the status of a Pod whose command runs.
func started(p *corev1.Pod) {
	p.Status.ContainerStatuses = []corev1.ContainerStatus{
		{Name: containerName, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
	}
}

func withPodDeadline(seconds int64) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = &seconds }
}

// unschedulable sets the status of a Pod for which the scheduler has found no node since noon.
func unschedulable(p *corev1.Pod) {
	p.Status.Phase = corev1.PodPending
	p.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "no room",
		LastTransitionTime: metav1.NewTime(noon),
	}}
}

// terminating marks a Pod as being deleted. The grace period does not matter.
func terminating(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: noon.Add(time.Minute)} }

// evicted sets the status of a Pod that failed a minute after noon, although its container did not end.
func evicted(p *corev1.Pod) {
	p.Status.Phase, p.Status.Reason, p.Status.Message = corev1.PodFailed, "Evicted", "The node was low on memory."
	p.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon)},
		{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(noon.Add(time.Minute))},
	}
}

// rejectedByNode sets the status of a Pod that was created at noon and that its node rejected.
func rejectedByNode(p *corev1.Pod) {
	p.CreationTimestamp = metav1.NewTime(noon)
	p.Status.Phase, p.Status.Reason, p.Status.Message = corev1.PodFailed, "OutOfcpu", "The node has too little."
}

// pendingStatus returns the status of an At that waits until noon, without conditions.
func pendingStatus() *v1.AtStatus {
	return &v1.AtStatus{ObservedGeneration: 1, Phase: v1.AtPending, ScheduledTime: ptr.To(metav1.NewTime(noon))}
}

// runningStatus returns the status of an At that was started at noon, without conditions, after the given
// changes.
func runningStatus(changes ...func(*v1.AtStatus)) *v1.AtStatus {
	status := pendingStatus()
	status.Phase, status.StartTime, status.PodName = v1.AtRunning, ptr.To(metav1.NewTime(noon)), "example-pod"
	for _, change := range changes {
		change(status)
	}
	return status
}

// doneStatus returns the status of an At that was started at noon and whose command ended a minute later,
// without conditions, after the given changes.
func doneStatus(changes ...func(*v1.AtStatus)) *v1.AtStatus {
	status := runningStatus(completedAt(noon.Add(time.Minute)))
	status.Phase = v1.AtDone
	for _, change := range changes {
		change(status)
	}
	return status
}

// neverScheduled removes the scheduled time, which a status of v1alpha1 lacks.
func neverScheduled(status *v1.AtStatus) { status.ScheduledTime = nil }

// neverStarted removes the fields that an At has only after its command was started.
func neverStarted(status *v1.AtStatus) { status.StartTime, status.PodName = nil, "" }

func scheduledAt(t time.Time) func(*v1.AtStatus) {
	return func(status *v1.AtStatus) { status.ScheduledTime = ptr.To(metav1.NewTime(t)) }
}

func startedAt(t time.Time) func(*v1.AtStatus) {
	return func(status *v1.AtStatus) { status.StartTime = ptr.To(metav1.NewTime(t)) }
}

func completedAt(t time.Time) func(*v1.AtStatus) {
	return func(status *v1.AtStatus) { status.CompletionTime = ptr.To(metav1.NewTime(t)) }
}

func failedPods(n int32) func(*v1.AtStatus) {
	return func(status *v1.AtStatus) { status.Failed = n }
}

func exitCode(code int32) func(*v1.AtStatus) {
	return func(status *v1.AtStatus) { status.ExitCode = &code }
}

// progressingConditions returns the conditions of an At that makes progress.
func progressingConditions(reason, message string) []string {
	return []string{
		"Degraded=False AsExpected",
		"Progressing=True " + reason + ": " + message,
		"Ready=False " + reason + ": " + message,
	}
}

// degradedConditions returns the conditions of an At that progresses in spite of a problem.
func degradedConditions(reason, message string) []string {
	conditions := progressingConditions(reason, message)
	conditions[0] = "Degraded=True " + reason + ": " + message
	return conditions
}

// stalledConditions returns the conditions of a Stalled At.
func stalledConditions(reason, message string) []string {
	return []string{
		"Degraded=True " + reason + ": " + message,
		"Progressing=False " + reason + ": " + message,
		"Ready=False " + reason + ": " + message,
		"Stalled=True " + reason + ": " + message,
	}
}

// failedConditions returns the conditions of an At that is Done and Failed.
func failedConditions(reason, message string) []string {
	return []string{
		"Degraded=True " + reason + ": " + message,
		"Failed=True " + reason + ": " + message,
		"Progressing=False " + reason + ": " + message,
		"Ready=False " + reason + ": " + message,
		"Stalled=True " + reason + ": " + message,
	}
}

// completeConditions returns the conditions of an At whose command succeeded.
func completeConditions(message string) []string {
	return []string{
		"Complete=True CommandSucceeded: " + message,
		"Degraded=False AsExpected",
		"Progressing=False CommandSucceeded: " + message,
		"Ready=True CommandSucceeded: " + message,
	}
}

// erroredConditions returns the conditions of an At whose last reconcile failed with err. The condition
// Progressing has the given reason and message.
func erroredConditions(reason, message, err string) []string {
	return []string{
		"Degraded=False AsExpected",
		"Progressing=True " + reason + ": " + message,
		"Ready=False ReconcileError: " + err,
	}
}
