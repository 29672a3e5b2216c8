package at

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/conditions"
)

var (
	noon     = time.Date(2030, 2, 10, 12, 0, 0, 0, time.UTC)
	writePod = "create pods default/example-pod"
	patchPod = "patch pods default/example-pod"
	status   = "update ats/status default/example"
)

// example returns an At that is due at noon, after the given changes.
func example(changes ...func(*v1.At)) *v1.At {
	at := &v1.At{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "example", UID: "at-uid", ResourceVersion: "1", Generation: 1},
		Spec:       v1.AtSpec{Schedule: "2030-02-10T13:00:00+01:00", Command: []string{"echo", "Hello"}},
	}
	for _, change := range changes {
		change(at)
	}
	return at
}

// running changes an At to the state after its start at noon was stored.
func running(at *v1.At) {
	setPending(at, noon)
	setRunning(at, noon)
	stored(at)
}

// stored changes a status to what the engine stores.
func stored(at *v1.At) {
	at.Status.ObservedGeneration = 1
	at.Status.Conditions = append(at.Status.Conditions, metav1.Condition{Type: "Degraded", Status: metav1.ConditionFalse, Reason: "AsExpected"})
	settled(at)
}

// pod returns the Pod of example, after the given changes.
func pod(changes ...func(*corev1.Pod)) *corev1.Pod {
	p := desiredPod(example(), DefaultImage)
	p.UID, p.ResourceVersion = "pod-uid", "2"
	p.Status.Phase = corev1.PodRunning
	for _, change := range changes {
		change(p)
	}
	return p
}

// ended changes a Pod to one whose command ended a minute after noon.
func ended(code int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodSucceeded
		if code != 0 {
			p.Status.Phase = corev1.PodFailed
		}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: containerName, State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: code, FinishedAt: metav1.NewTime(noon.Add(time.Minute))},
		}}}
	}
}

func owner(uid types.UID, kind, name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		yes := true
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1.SchemeGroupVersion.String(), Kind: kind, Name: name, UID: uid, Controller: &yes}}
	}
}

func deadline(n int64) func(*v1.At) { return func(at *v1.At) { at.Spec.ActiveDeadlineSeconds = &n } }

// notReady returns the conditions of an At that makes progress.
func notReady(reason, message string) []string {
	return []string{
		"Degraded=False AsExpected",
		"Progressing=True " + reason + ": " + message,
		"Ready=False " + reason + ": " + message,
	}
}

// stuck returns the conditions of a Stalled At.
func stuck(reason, message string) []string {
	return []string{
		"Degraded=True " + reason + ": " + message,
		"Progressing=False " + reason + ": " + message,
		"Ready=False " + reason + ": " + message,
		"Stalled=True " + reason + ": " + message,
	}
}

// failedFor returns the conditions of an At that is Done and Failed.
func failedFor(reason, message string) []string {
	all := stuck(reason, message)
	return []string{all[0], "Failed=True " + reason + ": " + message, all[1], all[2], all[3]}
}

// complete returns the conditions of an At whose command succeeded.
func complete(message string) []string {
	return []string{
		"Complete=True CommandSucceeded: " + message,
		"Degraded=False AsExpected",
		"Progressing=False CommandSucceeded: " + message,
		"Ready=True CommandSucceeded: " + message,
	}
}

// settled sets the fields of conditions that the engine sets.
func settled(at *v1.At) {
	for i := range at.Status.Conditions {
		at.Status.Conditions[i].ObservedGeneration = 1
		at.Status.Conditions[i].LastTransitionTime = metav1.NewTime(noon)
	}
}

// pending changes an At to the state after its schedule was read.
func pending(at *v1.At) {
	setPending(at, noon)
	stored(at)
}

// succeeded changes an At to the state after its command has succeeded.
func succeeded(at *v1.At) {
	running(at)
	zero := int32(0)
	setComplete(at, &ending{succeeded: true, exitCode: &zero, message: "It is over.", time: noon.Add(time.Minute)})
	settled(at)
}

// undeletable changes a finished At to the state after its deletion was refused.
func undeletable(at *v1.At) {
	conditions.False(&at.Status.Conditions, conditions.Ready, "Forbidden", "It may not go.")
	settled(at)
}

// broken changes an At to the state after its last try has failed.
func broken(at *v1.At) {
	running(at)
	setFailed(at, reasonBackoffLimit, "It is over.", noon.Add(time.Minute))
	settled(at)
}

// retrying changes an At to Running after the failures of that many Pods, with exit code 3, were stored.
func retrying(failed int32) func(*v1.At) {
	return func(at *v1.At) {
		three := int32(3)
		running(at)
		at.Status.Failed, at.Status.ExitCode = failed, &three
		setRunning(at, noon)
		settled(at)
	}
}

func schedule(s string) func(*v1.At) { return func(at *v1.At) { at.Spec.Schedule = s } }
func suspend(yes bool) func(*v1.At)  { return func(at *v1.At) { at.Spec.Suspend = &yes } }
func startWithin(n int64) func(*v1.At) {
	return func(at *v1.At) { at.Spec.StartingDeadlineSeconds = &n }
}
func tries(n int32) func(*v1.At)   { n--; return func(at *v1.At) { at.Spec.BackoffLimit = &n } }
func goAfter(n int32) func(*v1.At) { return func(at *v1.At) { at.Spec.TTLSecondsAfterFinished = &n } }
func newer(at *v1.At)              { at.ResourceVersion = "9" }
func unlabelled(p *corev1.Pod)     { delete(p.Labels, controller.ManagedByLabel) }
func unowned(p *corev1.Pod)        { p.OwnerReferences = nil }
func newerPod(p *corev1.Pod)       { p.ResourceVersion = "3" }
func attempt(n string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations[attemptAnnotation] = n }
}

// told changes a Pod to one that is being deleted. The grace period does not matter.
func told(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: noon.Add(time.Minute)} }

// evicted changes a Pod to one that failed a minute after noon, although its container did not end.
func evicted(p *corev1.Pod) {
	p.Status.Phase, p.Status.Reason, p.Status.Message = corev1.PodFailed, "Evicted", "The node was low on memory."
	p.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon)},
		{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(noon.Add(time.Minute))},
	}
}

// orphaned changes a Pod to one that the Pod garbage collector is about to delete.
func orphaned(p *corev1.Pod) {
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByPodGC"})
}

// refused changes a Pod to one that was created at noon and rejected by its node.
func refused(p *corev1.Pod) {
	p.CreationTimestamp = metav1.NewTime(noon)
	p.Status.Phase, p.Status.Reason, p.Status.Message = corev1.PodFailed, "OutOfcpu", "The node has too little."
}

func waiting(reason string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodPending
		p.Status.ContainerStatuses = []corev1.ContainerStatus{
			{Name: "injected", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CreateContainerError"}}},
			{Name: containerName, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}},
		}
	}
}

func list(pods ...*corev1.Pod) []*corev1.Pod { return pods }
