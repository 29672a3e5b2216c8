package app

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

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
	// configAnnotation on the Pod has the value "true" if the Pod mounts a ConfigMap of its own name.
	configAnnotation = controller.AnnotationDomain + "/mounts-config"
)

// runPodName returns the name of the Pod that runs beforeRollout, and of its ConfigMap.
func runPodName(app *v1alpha1.App) string { return app.Name + runPodSuffix }

// runID identifies a run of beforeRollout. The status has at most one run with the same values.
type runID struct {
	template string // the digest of the Pod template
	command  string // the digest of spec.beforeRollout
}

// runIDIn returns the runID in the annotations of a Pod.
func runIDIn(pod *corev1.Pod) runID {
	return runID{template: pod.Annotations[templateAnnotation], command: pod.Annotations[commandAnnotation]}
}

// commandDigest returns a digest of spec.beforeRollout, which is not nil.
func commandDigest(app *v1alpha1.App) string { return digestOfJSON(app.Spec.BeforeRollout) }

// desiredRunPod returns the Pod that runs beforeRollout. Its spec is that of the App's Pods, except for the container's
// name, image, command, ports, probe and preStop hook, the grace period, and the name of the ConfigMap. It lacks the
// labels by which the Service and the Deployment select the Pods of the App.
func desiredRunPod(app *v1alpha1.App, used contents, wanted runID) *corev1.Pod {
	template := desiredDeployment(app, used).Spec.Template.DeepCopy() // it may share memory with the App
	container := &template.Spec.Containers[0]
	container.Name, container.Ports, container.ReadinessProbe = runContainer, nil, nil
	container.Lifecycle, template.Spec.TerminationGracePeriodSeconds = nil, nil // the command serves no requests
	container.Command, container.Args = app.Spec.BeforeRollout.Command, app.Spec.BeforeRollout.Args
	container.Image, container.ImagePullPolicy = runImage(app), pods.PullPolicy(runImage(app))
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	template.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: runGate}}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       app.Namespace,
			Name:            runPodName(app),
			Finalizers:      []string{pods.TrackingFinalizer},
			Labels:          runLabels(app),
			Annotations:     map[string]string{templateAnnotation: wanted.template, commandAnnotation: wanted.command},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(app, groupVersionKind)},
		},
		Spec: template.Spec,
	}
	if hasConfig(app) {
		useRunConfig(app, &pod.Spec)
		pod.Annotations[configAnnotation] = "true"
	}
	return pod
}

// runLabels returns the labels of the Pod that runs beforeRollout, and of its ConfigMap.
func runLabels(app *v1alpha1.App) map[string]string {
	return pods.LabelsOf(app, "before-rollout", app.Name)
}

// runImage returns the image that runs beforeRollout.
func runImage(app *v1alpha1.App) string { return cmp.Or(app.Spec.BeforeRollout.Image, app.Spec.Image) }

// isGated reports whether a Pod has never run, because it still has its scheduling gate.
func isGated(pod *corev1.Pod) bool {
	return slices.Contains(pod.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: runGate})
}

// desiredRunConfig returns the ConfigMap that the Pod of a run mounts. The garbage collector deletes it with the Pod.
func desiredRunConfig(app *v1alpha1.App, pod *corev1.Pod) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace,
			Name:      pod.Name,
			Labels:    runLabels(app),
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: new(true),
			}},
		},
		Data: app.Spec.Config,
	}
}

// useRunConfig replaces the ConfigMap of the App in the spec of a Pod by the ConfigMap of the run, which has the new
// files and values.
func useRunConfig(app *v1alpha1.App, pod *corev1.PodSpec) {
	rename := func(ref *corev1.LocalObjectReference) {
		if ref.Name == app.Name {
			ref.Name = runPodName(app)
		}
	}
	for i := range pod.Volumes {
		if source := pod.Volumes[i].ConfigMap; source != nil {
			rename(&source.LocalObjectReference)
		}
	}
	for _, variable := range pod.Containers[0].Env {
		if from := variable.ValueFrom; from != nil && from.ConfigMapKeyRef != nil {
			rename(&from.ConfigMapKeyRef.LocalObjectReference)
		}
	}
	for _, from := range pod.Containers[0].EnvFrom {
		if from.ConfigMapRef != nil {
			rename(&from.ConfigMapRef.LocalObjectReference)
		}
	}
}

// ensureConfig creates the ConfigMap of the Pod of a run. The Pod does not mount the ConfigMap of the App, which keeps
// the previous files until the rollout: the running Pods mount it, and would see a change.
func (b *beforeRollout) ensureConfig(ctx context.Context, p *scope, pod *corev1.Pod) error {
	config, err := b.configs.Get(pod.Namespace, pod.Name)
	if apierrors.IsNotFound(err) {
		config, err = b.configMaps.ConfigMaps(pod.Namespace).Create(ctx, desiredRunConfig(p.app, pod), metav1.CreateOptions{})
		if err == nil {
			b.commands.Tracker.Wrote(cache.MetaObjectToName(p.app), "ConfigMap", b.configs, config.ResourceVersion)
		}
	}
	if apierrors.IsAlreadyExists(err) {
		config, err = b.configMaps.ConfigMaps(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	}
	switch {
	case err != nil:
		return fmt.Errorf("creating ConfigMap %s/%s: %w", pod.Namespace, pod.Name, err)
	case metav1.IsControlledBy(config, pod):
		return nil
	case ownerNamed(config, "Pod", pod.Name):
		return messageRunGarbage.Wait(garbageRecheck, pod.Name)
	}
	return p.Taken("ConfigMap", config)
}

// keepConfig creates a deleted ConfigMap of a pending Pod again, because the Pod cannot start without it. If the Pod is
// outdated, the content of its ConfigMap is no longer known: keepConfig then returns a problem, so that the Pod is
// deleted. Before that, keepConfig reads both objects from the API server, because a cache may be outdated, or lack an
// object whose managed-by label somebody has removed.
func (b *beforeRollout) keepConfig(
	ctx context.Context, p *scope, pod *corev1.Pod, outdated bool,
) (*pods.Problem, error) {
	if _, err := b.configs.Get(pod.Namespace, pod.Name); !apierrors.IsNotFound(err) {
		return nil, nil
	}
	_, err := b.configMaps.ConfigMaps(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	if err == nil {
		return nil, nil
	}
	if !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("reading ConfigMap %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	live, err := b.commands.Live(ctx, p.app)
	switch {
	case err != nil:
		return nil, err
	case live.Pod == nil || live.Pod.ResourceVersion != pod.ResourceVersion:
		return nil, nil // an event of the Pod will come
	case !outdated:
		return nil, b.ensureConfig(ctx, p, pod)
	}
	note := messageRunConfigMissing.Note(pod.Name)
	return &pods.Problem{Reason: note.Reason, Message: note.Message}, nil
}

// ownerNamed reports whether an object of the given kind and name controls child.
func ownerNamed(child metav1.Object, kind, name string) bool {
	owner := metav1.GetControllerOfNoCopy(child)
	return owner != nil && owner.Kind == kind && owner.Name == name
}
