package pods

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"windlass.dev/windlass/pkg/controller"
)

// TrackingFinalizer is on the Pod of a command until the status of the Pod's owner says how the command ended. The
// finalizer batch.kubernetes.io/job-tracking does the same for a Job. Without the finalizer, a Pod could be deleted before
// the operator has seen the end of its command, and the command would run again.
const TrackingFinalizer = controller.AnnotationDomain + "/command-tracking"

// IsTracked reports whether a Pod has TrackingFinalizer.
func IsTracked(pod *corev1.Pod) bool { return slices.Contains(pod.Finalizers, TrackingFinalizer) }

// TrackedPods returns a Reference that maps a Pod with TrackingFinalizer to the object that has the name of the Pod
// without suffix. In contrast to the owner reference, the name is also there after the Pod was orphaned.
func TrackedPods(informer cache.SharedIndexInformer, suffix string) controller.Reference {
	return controller.Reference{Informer: informer, Referrers: func(obj metav1.Object) []controller.Key {
		name, ok := strings.CutSuffix(obj.GetName(), suffix)
		if !ok || name == "" || !slices.Contains(obj.GetFinalizers(), TrackingFinalizer) {
			return nil
		}
		return []controller.Key{{Namespace: obj.GetNamespace(), Name: name}}
	}}
}

// atOnce is the activeDeadlineSeconds of a Pod that has to end now, which is the smallest value that the API server
// accepts.
const atOnce = 1

// Outlives reports whether other containers of a Pod run although its command has ended, and nothing ends them. An
// admission webhook has added these containers. The kubelet ends a sidecar among the init containers by itself.
func Outlives(pod *corev1.Pod, container string) bool {
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || pod.DeletionTimestamp != nil
	limit := pod.Spec.ActiveDeadlineSeconds
	if ended || limit != nil && *limit <= atOnce || firstEnd(StatusOf(pod, container)) == nil {
		return false
	}
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.State.Terminated == nil })
}
