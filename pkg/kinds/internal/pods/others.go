package pods

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
)

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

// EndOthers makes the kubelet end the containers of a Pod whose command has ended. In contrast to a deletion, the Pod and
// its logs stay. The precondition is the observed version. EndOthers returns the changed Pod.
func EndOthers(ctx context.Context, client coreclient.PodInterface, pod *corev1.Pod) (*corev1.Pod, error) {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID, "resourceVersion": pod.ResourceVersion},
		"spec":     map[string]any{"activeDeadlineSeconds": atOnce},
	})
	var changed *corev1.Pod
	if err == nil {
		changed, err = client.Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	}
	if err != nil {
		return nil, fmt.Errorf("setting activeDeadlineSeconds of Pod %s/%s, whose command has ended: %w", pod.Namespace, pod.Name, err)
	}
	return changed, nil
}
