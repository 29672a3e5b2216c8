package app

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

const (
	// runContainer is the name of the only container of the Pod that runs beforeRollout.
	runContainer = "before-rollout"
	// runPodSuffix is the end of the name of the Pod. The beginning is the name of the App.
	runPodSuffix = "-before-rollout"
	// runGate is the scheduling gate of the Pod until the status has the UID of the Pod.
	runGate = controller.AnnotationDomain + "/before-rollout"
	// commandAnnotation on the Pod has a digest of spec.beforeRollout.
	commandAnnotation = controller.AnnotationDomain + "/command-digest"
)

// runPodName returns the name of the Pod that runs beforeRollout.
func runPodName(app *v1alpha1.App) string { return app.Name + runPodSuffix }

// runID identifies a run of beforeRollout. The status has at most one run with the same values.
type runID struct {
	template string // the digest of the Pod template
	command  string // the digest of spec.beforeRollout
}

// runIDIn returns the runID in the annotations of a Pod.
func runIDIn(pod *corev1.Pod) runID {
	return runID{template: pod.Annotations[TemplateDigestAnnotation], command: pod.Annotations[commandAnnotation]}
}

// commandDigest returns a digest of spec.beforeRollout, which is not nil.
func commandDigest(app *v1alpha1.App) string { return digestOfJSON(app.Spec.BeforeRollout) }

// desiredRunPod returns the Pod that runs beforeRollout. Its spec is the spec of the template with only the container
// of the App, and without a grace period. In this container, the name, image, pull policy and command differ, and
// ports, probes and hooks are unset. Persistent volumes of spec.volumes are not mounted: while the previous Pods use a
// volume, it may keep the Pod from starting. The Pod has the labels and annotations of spec.metadata and
// spec.podTemplate, but not the labels by which the Service and the Deployment select the Pods of the App.
func desiredRunPod(app *v1alpha1.App, template *corev1.PodTemplateSpec, wanted runID) *corev1.Pod {
	template = template.DeepCopy() // it may share memory with the App
	template.Spec.Containers = []corev1.Container{*containerIn(template)}
	container := &template.Spec.Containers[0]
	unmountPersistent(app, &template.Spec)
	container.Name, container.Ports = runContainer, nil
	container.ReadinessProbe, container.LivenessProbe, container.StartupProbe = nil, nil, nil
	container.Lifecycle, template.Spec.TerminationGracePeriodSeconds = nil, nil // the command serves no requests
	container.RestartPolicy = nil
	for _, containers := range [][]corev1.Container{template.Spec.InitContainers, template.Spec.Containers} {
		for i := range containers {
			containers[i].RestartPolicyRules = nil // they could restart the command
		}
	}
	container.Command, container.Args = app.Spec.BeforeRollout.Command, app.Spec.BeforeRollout.Args
	container.Image, container.ImagePullPolicy = runImage(app), pods.PullPolicy(runImage(app))
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	template.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: runGate}}
	labels, annotations := map[string]string{}, map[string]string{}
	ownLabels, ownAnnotations := app.Spec.Metadata.Maps()
	maps.Copy(labels, ownLabels)
	maps.Copy(annotations, ownAnnotations)
	if over := app.Spec.PodTemplate; over != nil {
		maps.Copy(labels, over.Metadata.Labels)
		maps.Copy(annotations, over.Metadata.Annotations)
	}
	maps.Copy(labels, runLabels(app))
	annotations[TemplateDigestAnnotation], annotations[commandAnnotation] = wanted.template, wanted.command
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       app.Namespace,
			Name:            runPodName(app),
			Finalizers:      []string{pods.TrackingFinalizer},
			Labels:          labels,
			Annotations:     annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(app, groupVersionKind)},
		},
		Spec: template.Spec,
	}
}

// unmountPersistent removes the persistent volumes of spec.volumes from a Pod.
func unmountPersistent(app *v1alpha1.App, pod *corev1.PodSpec) {
	names := sets.New[string]()
	for i := range app.Spec.Volumes {
		if v := &app.Spec.Volumes[i]; v.Claim != nil || v.PersistentVolumeClaim != nil {
			names.Insert(volumeName(v))
		}
	}
	pod.Volumes = slices.DeleteFunc(pod.Volumes, func(v corev1.Volume) bool { return names.Has(v.Name) })
	for _, containers := range [][]corev1.Container{pod.Containers, pod.InitContainers} {
		for i := range containers {
			containers[i].VolumeMounts = slices.DeleteFunc(containers[i].VolumeMounts, func(m corev1.VolumeMount) bool {
				return names.Has(m.Name)
			})
		}
	}
}

// runLabels returns the labels of the Pod that runs beforeRollout.
func runLabels(app *v1alpha1.App) map[string]string {
	return pods.LabelsOf(app, "before-rollout", app.Name)
}

// runImage returns the image that runs beforeRollout.
func runImage(app *v1alpha1.App) string { return cmp.Or(app.Spec.BeforeRollout.Image, app.Spec.Image) }

// isGated reports whether a Pod has never run, because it still has its scheduling gate.
func isGated(pod *corev1.Pod) bool {
	return slices.Contains(pod.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: runGate})
}
