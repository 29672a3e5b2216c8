package app

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

// claimGroup owns the files of the volumes that the operator creates claims for, and is a group of all processes. An
// image that does not run as root could not write to a new volume otherwise. A Pod with another persistent volume does
// not get this group, because the kubelet would also change the files of that volume.
const claimGroup = 10001

// mountVolumes mounts the volumes of an App.
func mountVolumes(app *v1alpha1.App, pod *corev1.PodSpec, container *corev1.Container) {
	for i := range app.Spec.Volumes {
		v := &app.Spec.Volumes[i]
		pod.Volumes = append(pod.Volumes, corev1.Volume{Name: volumeName(v), VolumeSource: volumeSource(app, v)})
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{
			Name: volumeName(v), MountPath: v.MountPath, SubPath: v.SubPath, ReadOnly: v.ReadOnly || v.Image != nil,
		})
	}
	has := func(matches func(v1alpha1.AppVolume) bool) bool {
		return slices.ContainsFunc(app.Spec.Volumes, matches)
	}
	if has(func(v v1alpha1.AppVolume) bool { return v.Claim != nil }) &&
		!has(func(v v1alpha1.AppVolume) bool { return v.PersistentVolumeClaim != nil }) {
		pod.SecurityContext.FSGroup = ptr.To[int64](claimGroup)
		pod.SecurityContext.FSGroupChangePolicy = ptr.To(corev1.FSGroupChangeOnRootMismatch)
	}
}

// volumeName returns the name of a volume: see v1alpha1.AppVolume.
func volumeName(v *v1alpha1.AppVolume) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(v.MountPath))
	name = strings.Trim(name[:min(len(name), maxVolumeName)], "-")
	return cmp.Or(v.Name, name, "root")
}

// maxVolumeName limits the name of a volume in a Pod.
const maxVolumeName = 63

// claimName returns the name of the claim of a volume.
func claimName(app *v1alpha1.App, v *v1alpha1.AppVolume) string {
	return app.Name + "-" + volumeName(v)
}

func volumeSource(app *v1alpha1.App, v *v1alpha1.AppVolume) (source corev1.VolumeSource) {
	switch {
	case v.Claim != nil:
		source.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claimName(app, v)}
	case v.PersistentVolumeClaim != nil:
		source.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{
			ClaimName: v.PersistentVolumeClaim.ClaimName,
		}
	case v.EmptyDir != nil:
		source.EmptyDir = &corev1.EmptyDirVolumeSource{Medium: v.EmptyDir.Medium, SizeLimit: v.EmptyDir.SizeLimit}
	case v.Secret != nil:
		source.Secret = &corev1.SecretVolumeSource{SecretName: v.Secret.Name, Optional: v.Secret.Optional}
	case v.ConfigMap != nil:
		source.ConfigMap = &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: v.ConfigMap.Name}, Optional: v.ConfigMap.Optional,
		}
	case v.Image != nil:
		source.Image = &corev1.ImageVolumeSource{
			Reference: v.Image.Reference, PullPolicy: pods.PullPolicy(v.Image.Reference),
		}
	}
	return source
}

// isExclusive reports whether the App has a volume that only one node may be able to mount. In a rolling update, a new
// Pod could then not start on another node before the previous Pod ends, or both Pods would write to the volume.
func isExclusive(app *v1alpha1.App) bool {
	return slices.ContainsFunc(app.Spec.Volumes, func(v v1alpha1.AppVolume) bool {
		return v.Claim != nil && !slices.Contains(v.Claim.AccessModes, corev1.ReadWriteMany) ||
			v.PersistentVolumeClaim != nil && !v.ReadOnly
	})
}
