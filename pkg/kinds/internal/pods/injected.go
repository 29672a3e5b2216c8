package pods

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// InjectedWords are in each message about a container of a Pod that the operator does not generate.
const InjectedWords = "which Windlass does not generate"

// ReasonInitializing is the reason of a Pod that waits for an init container. It is the reason that the kubelet
// reports for the containers that wait.
const ReasonInitializing = "PodInitializing"

// initGrace is how long an init container may run before Injected returns a problem. Most init containers end within
// seconds.
const initGrace = time.Minute

// ProblemOf returns why a Pod does not run, or nil. own is the container that the operator creates. requeueAfter is
// positive if time alone can change the result.
func ProblemOf(pod *corev1.Pod, own string, now time.Time) (found *Problem, requeueAfter time.Duration) {
	if found, requeueAfter = problemIn(StatusOf(pod, own), now); found != nil {
		return found, requeueAfter
	}
	if found, requeueAfter = Injected(pod, own, now); found != nil || requeueAfter > 0 {
		return found, requeueAfter
	}
	return Unschedulable(pod, now)
}

// problemIn returns the problem of a container that cannot start or that crashes again and again, or nil.
func problemIn(status corev1.ContainerStatus, now time.Time) (found *Problem, requeueAfter time.Duration) {
	if found = Blocked(status); found != nil {
		return found, 0
	}
	return Crashing(status, now)
}

// Injected returns the problem of an injected container, or nil. The operator does not generate such a container: the
// podTemplate of a spec adds it, or mutating admission, for example a webhook of a service mesh. own is the container
// that the operator generates. requeueAfter is positive if time alone can change the result.
func Injected(pod *corev1.Pod, own string, now time.Time) (found *Problem, requeueAfter time.Duration) {
	of := func(status corev1.ContainerStatus) bool {
		if found, requeueAfter = problemIn(status, now); found != nil {
			found.Container = status.Name
			found.Message = messageInjected.With(status.Name, OneLine(status.Image), found.Message)
		}
		return found != nil
	}
	for _, status := range pod.Status.InitContainerStatuses {
		if !hasSucceeded(status) && of(status) {
			return found, requeueAfter
		}
	}
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name != own && of(status) {
			return found, requeueAfter
		}
	}
	pending := pendingInit(pod)
	if pending == nil || pending.State.Running == nil {
		return nil, 0
	}
	if requeueAfter = pending.State.Running.StartedAt.Add(initGrace).Sub(now); requeueAfter > 0 {
		return nil, requeueAfter
	}
	message := messageInitializing.With(pending.Name, OneLine(pending.Image), initGrace)
	return &Problem{Reason: ReasonInitializing, Message: message, Container: pending.Name}, 0
}

// hasSucceeded reports whether a container has ended with exit code 0, as an init container should.
func hasSucceeded(status corev1.ContainerStatus) bool {
	return status.State.Terminated != nil && status.State.Terminated.ExitCode == 0
}

// pendingInit returns the init container or native sidecar that the other containers of a Pod wait for, or nil. It
// skips an init container that is ready and a native sidecar that has started. No container waits for these, although
// the kubelet also reports PodInitializing while it pulls the image of the next container.
func pendingInit(pod *corev1.Pod) *corev1.ContainerStatus {
	waits := func(status corev1.ContainerStatus) bool {
		return status.State.Waiting != nil && status.State.Waiting.Reason == ReasonInitializing
	}
	if !slices.ContainsFunc(pod.Status.ContainerStatuses, waits) {
		return nil
	}
	for i := len(pod.Status.InitContainerStatuses) - 1; i >= 0; i-- {
		status := &pod.Status.InitContainerStatuses[i]
		if !waits(*status) && !hasSucceeded(*status) && !status.Ready && !isStartedSidecar(pod, status) {
			return status
		}
	}
	return nil
}

// isStartedSidecar reports whether a status is that of a native sidecar that has started. In the cache, which has no
// specs of containers, it returns false: Trim omits the status of such a sidecar, unless the sidecar has a problem.
func isStartedSidecar(pod *corev1.Pod, status *corev1.ContainerStatus) bool {
	return ptr.Deref(status.Started, false) && slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool {
		return c.Name == status.Name && ptr.Deref(c.RestartPolicy, "") == corev1.ContainerRestartPolicyAlways
	})
}
