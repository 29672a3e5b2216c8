package pods

import corev1 "k8s.io/api/core/v1"

// StatusOf returns the status of a container. It is empty if the kubelet has not reported one.
func StatusOf(pod *corev1.Pod, container string) corev1.ContainerStatus {
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == container {
			return status
		}
	}
	return corev1.ContainerStatus{}
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
