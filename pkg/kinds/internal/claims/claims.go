// Package claims has the rules of Kubernetes for the size of a PersistentVolumeClaim, and deletes the claims of a
// deleted owner.
package claims

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// KeepSize keeps the requested size of the claim live in want, where Kubernetes does not allow a change. An unbound
// claim cannot grow, and no volume can shrink. The requested size can be lowered only while the volume grows, and only
// to a size above the capacity (k8s.io/kubernetes, pkg/apis/core/validation).
func KeepSize(want, live *corev1.PersistentVolumeClaim) {
	wanted, asked, has := Requested(want), Requested(live), live.Status.Capacity.Storage()
	growing := live.Status.Phase == corev1.ClaimBound && !has.IsZero() && asked.Cmp(*has) > 0
	if live.Status.Phase == corev1.ClaimPending || wanted.Cmp(*asked) < 0 && (!growing || wanted.Cmp(*has) <= 0) {
		want.Spec.Resources.Requests[corev1.ResourceStorage] = *asked
	}
}

// Size returns the capacity of a volume or, for an unbound claim, the requested size.
func Size(claim *corev1.PersistentVolumeClaim) *resource.Quantity {
	if has := claim.Status.Capacity.Storage(); !has.IsZero() {
		return has
	}
	return Requested(claim)
}

// Requested returns the size that a claim requests.
func Requested(claim *corev1.PersistentVolumeClaim) *resource.Quantity {
	size := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	return &size
}
