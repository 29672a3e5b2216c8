package pods

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

// Restricted returns the security context of a Pod. With RestrictedContainer in all containers, the Pod
// complies with the Pod Security Standard restricted
// (https://kubernetes.io/docs/concepts/security/pod-security-standards).
func Restricted() *corev1.PodSecurityContext {
	return &corev1.PodSecurityContext{
		RunAsNonRoot:   ptr.To(true),
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

// RestrictedContainer returns the security context of each container in a Pod that has the security context
// Restricted.
func RestrictedContainer() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: ptr.To(false),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

// Rounded returns a copy of resources with all quantities rounded up to thousandths, as the API server
// rounds them. The desired state then equals the observed state.
func Rounded(resources corev1.ResourceRequirements) corev1.ResourceRequirements {
	resources = *resources.DeepCopy()
	for _, list := range []corev1.ResourceList{resources.Requests, resources.Limits} {
		for name, quantity := range list {
			quantity.RoundUp(resource.Milli)
			list[name] = quantity
		}
	}
	return resources
}
