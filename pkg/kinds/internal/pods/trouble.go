package pods

import corev1 "k8s.io/api/core/v1"

// StatusOf is what the kubelet says of a container, or an empty status.
func StatusOf(pod *corev1.Pod, container string) corev1.ContainerStatus {
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == container {
			return status
		}
	}
	return corev1.ContainerStatus{}
}

// BlockedStart is why a container cannot start, or empty. The kubelet swings between
// two words for the same trouble with an image; one is enough.
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
