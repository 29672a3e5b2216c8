package pods

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// PullPolicy returns the default of imagePullPolicy for an image: Always if the tag is latest, and IfNotPresent
// otherwise. The API server sets this default only when an object is created, and does not change it with the tag.
func PullPolicy(image string) corev1.PullPolicy {
	name, _, hasDigest := strings.Cut(image, "@")
	_, tag, hasTag := strings.Cut(name[strings.LastIndex(name, "/")+1:], ":")
	if tag == "latest" || !hasTag && !hasDigest {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

// StatusOf returns the status of a container. It is empty if the kubelet has not reported one.
func StatusOf(pod *corev1.Pod, container string) corev1.ContainerStatus {
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == container {
			return status
		}
	}
	return corev1.ContainerStatus{}
}

// FirstEnd returns how a container ended, or nil if it has not ended. The restartPolicy of the Pod of a command is
// Never. If an admission webhook has changed the policy, the kubelet starts the container again, and the first end
// counts.
func FirstEnd(status corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	if last := status.LastTerminationState.Terminated; last != nil {
		return last
	}
	return status.State.Terminated
}

// BlockedStart returns the reason why a container cannot start, or "". The kubelet alternates between two
// reasons if it cannot pull an image. BlockedStart returns ImagePullBackOff for both.
func BlockedStart(status corev1.ContainerStatus) string {
	if status.State.Waiting == nil {
		return ""
	}
	switch reason := status.State.Waiting.Reason; reason {
	case "ErrImagePull":
		return "ImagePullBackOff"
	case "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError", "CreateContainerError":
		return reason
	}
	return ""
}
