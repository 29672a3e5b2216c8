package pods

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

// Restricted returns the security context of a Pod that complies with the Pod Security Standard
// restricted, if its containers have RestrictedContainer
// (https://kubernetes.io/docs/concepts/security/pod-security-standards).
func Restricted() *corev1.PodSecurityContext {
	return &corev1.PodSecurityContext{
		RunAsNonRoot:   ptr.To(true),
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

// RestrictedContainer returns the security context of each container of such a Pod.
func RestrictedContainer() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: ptr.To(false),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

// Rounded rounds quantities up to thousandths, as the API server does, so that the desired state equals
// the observed state.
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
