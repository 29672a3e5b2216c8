package app

import (
	"cmp"
	"path"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/kinds/internal/credentials"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

const (
	// defaultContainer is the default of spec.containerName.
	defaultContainer = "app"
	// appLabel on a Pod names its App. Pods of Helm charts can have the labels of selectorOf, but not this label.
	appLabel = "windlass.dev/app"
	// instanceLabel on the Deployment, its ReplicaSets and all Pods names their App.
	instanceLabel = "app.kubernetes.io/instance"
)

// containerOf returns the name of the container of an App.
func containerOf(app *v1alpha1.App) string { return cmp.Or(app.Spec.ContainerName, defaultContainer) }

// containerNamedIn returns the name of the container of the App in a Pod or a Pod template that the operator desired.
func containerNamedIn(podOrTemplate metav1.Object) string {
	return cmp.Or(podOrTemplate.GetAnnotations()[pods.ContainerAnnotation], defaultContainer)
}

// containerIn returns the container of the App in a Pod template that the operator desired, or nil. Other clients can
// add containers at any place.
func containerIn(template *corev1.PodTemplateSpec) *corev1.Container {
	return pods.Container(template, containerNamedIn(template))
}

// selectorOf returns the labels by which the Deployment selects the Pods of an App. They never change, because the
// selector of a Deployment is immutable.
func selectorOf(app *v1alpha1.App) map[string]string {
	return map[string]string{"app.kubernetes.io/name": "app", instanceLabel: app.Name}
}

// podSelectorOf returns the labels by which the Service and the PodDisruptionBudget select the Pods of an App. Unlike
// the labels of selectorOf, they do not match Pods of Helm charts. For an adopted Deployment, see scope.podSelector.
func podSelectorOf(app *v1alpha1.App) map[string]string {
	selector := selectorOf(app)
	selector[appLabel] = app.Name
	return selector
}

// metaOf returns the metadata of all children. It includes no label or annotation of the App: a pruning tool deletes
// each object that has the label of the tool and is not in its configuration.
func metaOf(app *v1alpha1.App) metav1.ObjectMeta {
	labels := selectorOf(app)
	pods.CopyPlatformLabels(labels, app)
	return metav1.ObjectMeta{Namespace: app.Namespace, Name: app.Name, Labels: labels}
}

// desiredDeployment returns the Deployment with the given Pod template. used has the contents of the inputs of its
// Pods. replicas is unset if the App has an autoscaler.
func desiredDeployment(app *v1alpha1.App, template *corev1.PodTemplateSpec, used contents) *appsv1.Deployment {
	d := &appsv1.Deployment{
		ObjectMeta: metaOf(app),
		Spec: appsv1.DeploymentSpec{
			Replicas: app.Spec.Replicas,
			Selector: &metav1.LabelSelector{MatchLabels: selectorOf(app)},
			Template: *template.DeepCopy(), // it may share memory with the App
		},
	}
	setRollout(app, &d.Spec)
	if isAutoscaled(app) {
		d.Spec.Replicas = nil
	}
	setSpec(app, d)
	if len(used) > 0 {
		metav1.SetMetaDataAnnotation(&d.ObjectMeta, inputsAnnotation, used.String())
	}
	return d
}

// desiredPod returns the spec of the Pods, which complies with the Pod Security Standard restricted.
func desiredPod(app *v1alpha1.App) corev1.PodSpec {
	container := corev1.Container{
		Name:            containerOf(app),
		Image:           app.Spec.Image,
		Command:         app.Spec.Command,
		Args:            app.Spec.Args,
		Env:             environment(app),
		EnvFrom:         app.Spec.EnvFrom,
		Ports:           containerPorts(app),
		Resources:       pods.Rounded(app.Spec.Resources),
		SecurityContext: pods.RestrictedContainer(),
	}
	setProbes(app, &container)
	pod := corev1.PodSpec{
		ServiceAccountName: app.Spec.ServiceAccountName,
		// The API server copies serviceAccountName into this deprecated field. If only serviceAccountName were
		// removed, the API server would restore it from the copy.
		DeprecatedServiceAccount: app.Spec.ServiceAccountName,
		ImagePullSecrets:         app.Spec.ImagePullSecrets,
		SecurityContext:          pods.Restricted(),
	}
	if hasConfig(app) {
		mountConfig(app, &pod, &container)
	}
	if app.Spec.DatabaseRef != nil {
		mountRootCert(app, &pod, &container)
	}
	mountVolumes(app, &pod, &container)
	pod.Containers = []corev1.Container{container}
	return pod
}

// environment returns the variables for the database, followed by spec.env. A variable in spec.env
// replaces the database variable of the same name.
func environment(app *v1alpha1.App) []corev1.EnvVar {
	if app.Spec.DatabaseRef == nil {
		return app.Spec.Env
	}
	var env []corev1.EnvVar
	for _, variable := range credentials.Variables {
		if slices.ContainsFunc(app.Spec.Env, func(e corev1.EnvVar) bool { return e.Name == variable.Name }) {
			continue
		}
		from := &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: connectionSecret(app)}, Key: variable.Key,
		}
		if variable.Optional {
			from.Optional = ptr.To(true)
		}
		env = append(env, corev1.EnvVar{Name: variable.Name, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: from}})
	}
	return append(env, app.Spec.Env...)
}

// rootCertVolume is the name of the volume with the CA of the App's database.
const rootCertVolume = "app-database"

// mountRootCert mounts the CA in the connection Secret at credentials.RootCertPath, unless spec.volumes mounts
// something else there. A connection Secret without a CA is mounted as an empty directory.
func mountRootCert(app *v1alpha1.App, pod *corev1.PodSpec, container *corev1.Container) {
	name := rootCertVolume
	for _, v := range app.Spec.Volumes {
		if path.Clean(v.MountPath) == credentials.RootCertDir {
			return
		}
	}
	for slices.ContainsFunc(app.Spec.Volumes, func(v v1alpha1.AppVolume) bool { return volumeName(&v) == name }) {
		name += "-ca"
	}
	container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{
		Name: name, MountPath: credentials.RootCertDir, ReadOnly: true,
	})
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{
			SecretName: connectionSecret(app), Optional: ptr.To(true),
			Items: []corev1.KeyToPath{{Key: credentials.KeyCA, Path: credentials.KeyCA}},
		},
	}})
}

// connectionSecret returns the name of the connection Secret of the App's database.
func connectionSecret(app *v1alpha1.App) string { return credentials.Name(app.Spec.DatabaseRef.Name) }

// needsBudget reports whether the App has a PodDisruptionBudget. For a single Pod, a budget would either protect
// nothing or block every drain.
func needsBudget(app *v1alpha1.App) bool { return minReplicas(app) > 1 }

// desiredDisruptionBudget returns the PodDisruptionBudget, which selects the Pods with the labels of selector.
func desiredDisruptionBudget(app *v1alpha1.App, selector map[string]string) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metaOf(app),
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: ptr.To(intstr.FromInt32(1)),
			Selector:       &metav1.LabelSelector{MatchLabels: selector},
			// A Pod that is not ready serves no requests and may be evicted. The Pods of an App that crashes therefore block
			// no drain.
			UnhealthyPodEvictionPolicy: ptr.To(policyv1.AlwaysAllow),
		},
	}
}
