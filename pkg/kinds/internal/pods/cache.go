package pods

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"

	"windlass.dev/windlass/pkg/cache/budget"
	"windlass.dev/windlass/pkg/controller"
)

// TrackingFinalizer is on the Pod of a command until the status of the Pod's owner says how the command ended. The
// finalizer batch.kubernetes.io/job-tracking does the same for a Job. Without the finalizer, a Pod could be deleted
// before the operator has seen the end of its command, and the command would run again.
const TrackingFinalizer = controller.AnnotationDomain + "/command-tracking"

// IsTracked reports whether a Pod has TrackingFinalizer.
func IsTracked(pod *corev1.Pod) bool { return slices.Contains(pod.Finalizers, TrackingFinalizer) }

// ownDomains are the prefixes of the annotations that kinds set on their Pods: the API groups of Windlass.
var ownDomains = []string{"windlass.dev/", "cnat.programming-kubernetes.info/"}

// tracked are the finalizers of a cached Pod with TrackingFinalizer. All such Pods share this slice.
var tracked = []string{TrackingFinalizer}

// Watched returns the informer of Pods that all kinds share, whose cache holds the results of Trim. Call
// Watched before the informers are started.
func Watched(factory informers.SharedInformerFactory) (coreinformers.PodInformer, error) {
	watched := factory.Core().V1().Pods()
	if err := watched.Informer().SetTransform(Trim); err != nil {
		return nil, fmt.Errorf("setting the transform of the cache of Pods: %w", err)
	}
	return watched, nil
}

// Trim is a cache.TransformFunc. It keeps only the fields of a Pod that kinds read: its identity, its times,
// TrackingFinalizer, its controlling owner, its address if a StatefulSet owns it, some labels and annotations, its
// activeDeadlineSeconds, its grace period if it has activeDeadlineSeconds, its scheduling gates of Windlass, its phase
// with reason and message, the states of its containers as trimContainers keeps them, and the conditions Ready,
// PodScheduled and DisruptionTarget. It keeps the last 1024 bytes of each message in the status. It returns other
// objects unchanged.
func Trim(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	trimmed := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:         pod.Namespace,
			Name:              pod.Name,
			UID:               pod.UID,
			ResourceVersion:   pod.ResourceVersion,
			CreationTimestamp: pod.CreationTimestamp,
			DeletionTimestamp: pod.DeletionTimestamp,

			DeletionGracePeriodSeconds: pod.DeletionGracePeriodSeconds,
			Labels: bounded(pod.Labels, "windlass.dev/", appsv1.ControllerRevisionHashLabelKey,
				"app.kubernetes.io/"),
			OwnerReferences: controllerOf(pod),
		},
		Spec:   corev1.PodSpec{SchedulingGates: ownGates(pod)},
		Status: corev1.PodStatus{Phase: pod.Status.Phase, Reason: pod.Status.Reason, Message: end(pod.Status.Message)},
	}
	if pod.Spec.ActiveDeadlineSeconds != nil {
		trimmed.Spec.ActiveDeadlineSeconds = pod.Spec.ActiveDeadlineSeconds
		trimmed.Spec.TerminationGracePeriodSeconds = pod.Spec.TerminationGracePeriodSeconds
	}
	if IsTracked(pod) {
		trimmed.Finalizers = tracked
	}
	if owner := trimmed.OwnerReferences; len(owner) > 0 && owner[0].Kind == "StatefulSet" {
		trimmed.Status.PodIP = pod.Status.PodIP
	}
	trimmed.Annotations = bounded(pod.Annotations, ownDomains...)
	for _, condition := range pod.Status.Conditions {
		switch condition.Type {
		case corev1.PodReady, corev1.PodScheduled, corev1.DisruptionTarget:
			condition.Message = end(condition.Message)
			trimmed.Status.Conditions = append(trimmed.Status.Conditions, condition)
		}
	}
	trimContainers(trimmed, pod)
	return trimmed, nil
}

// ContainerAnnotation on a Pod of an App has the name of the container of the App, unless it has the default name.
const ContainerAnnotation = controller.AnnotationDomain + "/container"

// ownContainers are the names of the containers that kinds create, except for the names in ContainerAnnotation.
var ownContainers = []string{"app", "before-rollout", "command", "postgresql"}

// maxInjected limits the cached states of init containers, and of containers that others have added to a Pod.
const maxInjected = 8

// trimContainers copies the states of these containers to a trimmed Pod:
//   - the containers that kinds create,
//   - the init container that the other containers wait for,
//   - an injected container that outlives the command: see survivor,
//   - at most maxInjected other init containers with a problem, and as many other containers with a problem.
func trimContainers(trimmed, pod *corev1.Pod) {
	owner := trimmed.OwnerReferences
	healthy := len(owner) > 0 && owner[0].Kind == "ReplicaSet" && !HasSymptom(pod)
	pending, kept := pendingInit(pod), 0
	for i := range pod.Status.InitContainerStatuses {
		status := &pod.Status.InitContainerStatuses[i]
		if status == pending || kept < maxInjected && isTroubled(status) {
			kept++
			trimmed.Status.InitContainerStatuses = append(trimmed.Status.InitContainerStatuses, trimContainer(status))
		}
	}
	kept = 0
	outlives := survivor(pod)
	for i := range pod.Status.ContainerStatuses {
		status := &pod.Status.ContainerStatuses[i]
		own := slices.Contains(ownContainers, status.Name) || status.Name == pod.Annotations[ContainerAnnotation]
		switch {
		case own && healthy: // an App reads the states of containers only if the Pod has a symptom
			trimmed.Status.ContainerStatuses = append(trimmed.Status.ContainerStatuses, corev1.ContainerStatus{
				Name: status.Name, ImageID: status.ImageID,
			})
			continue
		case status == outlives:
		case !own && (kept == maxInjected || !isTroubled(status)):
			continue
		case !own:
			kept++
		}
		trimmed.Status.ContainerStatuses = append(trimmed.Status.ContainerStatuses, trimContainer(status))
	}
}

// survivor returns an injected container that has not ended although a container that a kind created has ended, or nil.
// Package runonce ends such a container.
func survivor(pod *corev1.Pod) (found *corev1.ContainerStatus) {
	ended := false
	for i := range pod.Status.ContainerStatuses {
		status := &pod.Status.ContainerStatuses[i]
		switch {
		case slices.Contains(ownContainers, status.Name):
			ended = ended || FirstEnd(*status) != nil
		case status.State.Terminated == nil:
			found = status
		}
	}
	if !ended {
		return nil
	}
	return found
}

// isTroubled reports whether the state of a container can mean a problem.
func isTroubled(status *corev1.ContainerStatus) bool {
	ended, waiting := status.State.Terminated, status.State.Waiting
	return status.LastTerminationState.Terminated != nil || ended != nil && ended.ExitCode != 0 ||
		waiting != nil && waiting.Reason == ReasonCrashing || BlockedStart(*status) != ""
}

func trimContainer(status *corev1.ContainerStatus) corev1.ContainerStatus {
	return corev1.ContainerStatus{
		Name: status.Name, State: trimState(status.State), LastTerminationState: trimState(status.LastTerminationState),
		RestartCount: status.RestartCount, Image: end(status.Image), ImageID: end(status.ImageID), Ready: status.Ready,
	}
}

// trimState returns a state of a container without the ID of the container, and with the end of its message.
func trimState(state corev1.ContainerState) corev1.ContainerState {
	state = *state.DeepCopy()
	if state.Waiting != nil {
		state.Waiting.Message = end(state.Waiting.Message)
	}
	if state.Terminated != nil {
		state.Terminated.Message, state.Terminated.ContainerID = end(state.Terminated.Message), ""
	}
	return state
}

// maxMessage limits a message in the status of a cached Pod, in bytes. Programs in containers write some of
// these messages.
const maxMessage = 1 << 10

// end returns the last maxMessage bytes of a message: the cause of a crash is at the end.
func end(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	return strings.ToValidUTF8(message[len(message)-maxMessage:], "")
}

// maxNames limits the number of cached labels, and of cached annotations, of a Pod. maxValue limits their
// values, in bytes. The limits are necessary because users can create Pods with the labels of the operator.
const (
	maxNames = 16
	maxValue = 256
)

// bounded returns the entries whose names begin with one of the prefixes, within maxNames and maxValue. If there are
// too many, those with the first prefix stay.
func bounded(all map[string]string, prefixes ...string) map[string]string {
	var kept map[string]string
	names := slices.Sorted(maps.Keys(all))
	for _, prefix := range prefixes {
		for _, name := range names {
			if !strings.HasPrefix(name, prefix) || len(all[name]) > maxValue || len(kept) == maxNames {
				continue
			}
			if kept == nil {
				kept = map[string]string{}
			}
			kept[name] = all[name]
		}
	}
	return kept
}

// ownGates returns the scheduling gates of a Pod with a name of Windlass, at most maxNames.
func ownGates(pod *corev1.Pod) (own []corev1.PodSchedulingGate) {
	for _, gate := range pod.Spec.SchedulingGates {
		if strings.HasPrefix(gate.Name, controller.AnnotationDomain+"/") && len(own) < maxNames {
			own = append(own, gate)
		}
	}
	return own
}

// controllerOf returns the controller reference of a Pod.
func controllerOf(pod *corev1.Pod) []metav1.OwnerReference {
	if owner := metav1.GetControllerOf(pod); owner != nil {
		return budget.Owners([]metav1.OwnerReference{*owner})
	}
	return nil
}
