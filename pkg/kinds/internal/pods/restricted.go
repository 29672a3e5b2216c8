package pods

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

// Restricted is how all containers of a Pod are confined that passes Pod Security
// "restricted", together with RestrictedContainer
// (https://kubernetes.io/docs/concepts/security/pod-security-standards).
func Restricted() *corev1.PodSecurityContext {
	return &corev1.PodSecurityContext{
		RunAsNonRoot:   ptr.To(true),
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

// RestrictedContainer is how each of them is.
func RestrictedContainer() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: ptr.To(false),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

// Rounded is what the API server makes of quantities below a thousandth, so that
// they are what is there.
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
