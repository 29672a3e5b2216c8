package app

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

// withVolumes returns a change that adds volumes to an App.
func withVolumes(volumes ...v1alpha1.AppVolume) func(*v1alpha1.App) {
	return func(app *v1alpha1.App) { app.Spec.Volumes = append(app.Spec.Volumes, volumes...) }
}

// withData adds a volume with a claim of this size to an App, at /data.
func withData(size string, modes ...corev1.PersistentVolumeAccessMode) func(*v1alpha1.App) {
	claim := &v1alpha1.AppClaim{Size: resource.MustParse(size), AccessModes: modes}
	return func(app *v1alpha1.App) {
		app.Spec.Volumes = []v1alpha1.AppVolume{{MountPath: "/data", Name: "data", Claim: claim}}
	}
}

func TestVolumeHasSourceAndMount(t *testing.T) {
	for name, c := range map[string]struct {
		volume v1alpha1.AppVolume
		source corev1.VolumeSource
		mount  corev1.VolumeMount
	}{
		"a claim of the App": {
			v1alpha1.AppVolume{MountPath: "/var/lib/API_1", Claim: &v1alpha1.AppClaim{Size: resource.MustParse("1Gi")}},
			corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{
				ClaimName: "web-var-lib-api-1",
			}},
			corev1.VolumeMount{Name: "var-lib-api-1", MountPath: "/var/lib/API_1"},
		},
		"another claim": {
			v1alpha1.AppVolume{
				MountPath: "/", Name: "shared", SubPath: "a", ReadOnly: true,
				PersistentVolumeClaim: &v1alpha1.AppVolumeClaim{ClaimName: "nfs"},
			},
			corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "nfs"}},
			corev1.VolumeMount{Name: "shared", MountPath: "/", SubPath: "a", ReadOnly: true},
		},
		"an empty directory": {
			v1alpha1.AppVolume{MountPath: "/tmp", EmptyDir: &v1alpha1.AppEmptyDir{
				Medium: corev1.StorageMediumMemory, SizeLimit: ptr.To(resource.MustParse("1Mi")),
			}},
			corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{
				Medium: corev1.StorageMediumMemory, SizeLimit: ptr.To(resource.MustParse("1Mi")),
			}},
			corev1.VolumeMount{Name: "tmp", MountPath: "/tmp"},
		},
		"a Secret": {
			v1alpha1.AppVolume{MountPath: "/tls", Secret: &v1alpha1.AppFiles{Name: "tls", Optional: ptr.To(true)}},
			corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "tls", Optional: ptr.To(true)}},
			corev1.VolumeMount{Name: "tls", MountPath: "/tls"},
		},
		"a ConfigMap at the root directory": {
			v1alpha1.AppVolume{MountPath: "/", ConfigMap: &v1alpha1.AppFiles{Name: "a"}},
			corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: "a"},
			}},
			corev1.VolumeMount{Name: "root", MountPath: "/"},
		},
		"an image": {
			v1alpha1.AppVolume{MountPath: "/model", Image: &v1alpha1.AppImageVolume{Reference: "model:1"}},
			corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "model:1", PullPolicy: corev1.PullIfNotPresent}},
			corev1.VolumeMount{Name: "model", MountPath: "/model", ReadOnly: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := desiredPod(example(withFiles("a"), withVolumes(c.volume)))
			controllertest.Equal(t, "volume", corev1.Volume{Name: c.mount.Name, VolumeSource: c.source}, pod.Volumes[1])
			controllertest.Equal(t, "mount", c.mount, pod.Containers[0].VolumeMounts[1])
			var group *int64
			if c.volume.Claim != nil {
				group = ptr.To[int64](claimGroup)
			}
			controllertest.Equal(t, "group of the files", group, pod.SecurityContext.FSGroup)
		})
	}
}

func TestAppWithVolumeOfOneNodeIsRecreated(t *testing.T) {
	rolling := func(app *v1alpha1.App) {
		app.Spec.Rollout = &v1alpha1.AppRollout{Strategy: appsv1.RollingUpdateDeploymentStrategyType}
	}
	for name, c := range map[string]struct {
		changes []func(*v1alpha1.App)
		want    appsv1.DeploymentStrategyType
	}{
		"no volume":            {nil, appsv1.RollingUpdateDeploymentStrategyType},
		"a volume of one node": {[]func(*v1alpha1.App){withData("1Gi")}, appsv1.RecreateDeploymentStrategyType},
		"a volume of one node, and a chosen strategy": {
			[]func(*v1alpha1.App){withData("1Gi"), rolling}, appsv1.RollingUpdateDeploymentStrategyType,
		},
		"a claim of somebody else": {
			[]func(*v1alpha1.App){withVolumes(v1alpha1.AppVolume{
				MountPath: "/data", PersistentVolumeClaim: &v1alpha1.AppVolumeClaim{ClaimName: "a"},
			})}, appsv1.RecreateDeploymentStrategyType,
		},
		"a claim of somebody else that is only read": {
			[]func(*v1alpha1.App){withVolumes(v1alpha1.AppVolume{
				MountPath: "/data", ReadOnly: true, PersistentVolumeClaim: &v1alpha1.AppVolumeClaim{ClaimName: "a"},
			})}, appsv1.RollingUpdateDeploymentStrategyType,
		},
		"a volume of many nodes": {
			[]func(*v1alpha1.App){withData("1Gi", corev1.ReadWriteMany)}, appsv1.RollingUpdateDeploymentStrategyType,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var spec appsv1.DeploymentSpec
			setRollout(example(c.changes...), &spec)
			controllertest.Equal(t, "strategy", c.want, spec.Strategy.Type)
		})
	}
}

func TestPodOfBeforeRolloutHasNoPersistentVolume(t *testing.T) {
	pod := runPodOf(example(withMigration, withFiles("a"), withData("1Gi"), withVolumes(
		v1alpha1.AppVolume{MountPath: "/tmp", EmptyDir: &v1alpha1.AppEmptyDir{}},
		v1alpha1.AppVolume{MountPath: "/nfs", PersistentVolumeClaim: &v1alpha1.AppVolumeClaim{ClaimName: "nfs"}},
	)), runID{})
	var volumes, mounts []string
	for _, v := range pod.Spec.Volumes {
		volumes = append(volumes, v.Name)
	}
	for _, m := range pod.Spec.Containers[0].VolumeMounts {
		mounts = append(mounts, m.MountPath)
	}
	controllertest.Equal(t, "volumes", []string{configVolume, "tmp"}, volumes)
	controllertest.Equal(t, "mounts", []string{"/etc/app", "/tmp"}, mounts)
}

func TestContentOfVolumeReplacesPodsUnlessItIsReloaded(t *testing.T) {
	tls := func(files v1alpha1.AppFiles) func(*v1alpha1.App) {
		return withVolumes(v1alpha1.AppVolume{MountPath: "/tls", Secret: &files})
	}
	named := v1alpha1.AppFiles{Name: "tls"}
	reloaded := v1alpha1.AppFiles{Name: "tls", Reload: true}
	inEnv := func(app *v1alpha1.App) {
		app.Spec.EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: "tls"},
		}}}
	}
	for name, c := range map[string]struct {
		changes []func(*v1alpha1.App)
		rolls   bool
	}{
		"a volume":                              {[]func(*v1alpha1.App){tls(named)}, true},
		"a reloaded volume":                     {[]func(*v1alpha1.App){tls(reloaded)}, false},
		"a reloaded volume beside the same env": {[]func(*v1alpha1.App){tls(reloaded), inEnv}, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, example(c.changes...))
			controllertest.ErrorContains(t, "Waiting for Secret tls", f.Reconcile().Err)
			f.Store(secret("tls"))
			controllertest.ErrorContains(t, "", f.Reconcile().Err)
			before := f.deployment().Spec.Template
			changed := secret("tls")
			changed.Data["uri"], changed.ResourceVersion = []byte("other"), "9"
			f.Remove(secret("tls"))
			f.Store(changed)
			f.Reconcile()
			after := f.deployment().Spec.Template
			controllertest.Equal(t, "Pods are replaced", c.rolls,
				before.Annotations[inputsDigestAnnotation] != after.Annotations[inputsDigestAnnotation])
		})
	}
}
