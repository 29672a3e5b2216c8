package app

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

// desiredRunConfig returns the ConfigMap that a Pod mounts. It is garbage-collected with the Pod.
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

// useRunConfig replaces the ConfigMap of the App with the ConfigMap of the run, which has the new files and values.
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

// ensureConfig creates the ConfigMap of a Pod. The ConfigMap of the App keeps the files of the former template, because
// a change would reach the running Pods.
func (b *beforeRollout) ensureConfig(ctx context.Context, p *scope, pod *corev1.Pod) error {
	config, err := b.configs.Get(pod.Namespace, pod.Name)
	if apierrors.IsNotFound(err) {
		config, err = b.client.ConfigMaps(pod.Namespace).Create(ctx, desiredRunConfig(p.app, pod), metav1.CreateOptions{})
		if err == nil {
			b.tracker.Wrote(keyOf(p.app), "ConfigMap", b.configs, config.ResourceVersion)
		}
	}
	if apierrors.IsAlreadyExists(err) {
		config, err = b.client.ConfigMaps(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	}
	switch {
	case err != nil:
		return wrapped(err, "creating", "ConfigMap", pod)
	case metav1.IsControlledBy(config, pod):
		return nil
	case ownerNamed(config, "Pod", pod.Name):
		return messageRunGarbage.Wait(garbageRecheck, pod.Name)
	}
	return p.Taken("ConfigMap", config)
}

// keepConfig handles the deletion of the ConfigMap of a pending Pod, which cannot start without it. It creates the
// ConfigMap again. If the Pod is of a former run, whose files are no longer known, it returns a problem instead, so that the
// Pod is deleted. Otherwise it returns nil. The caches may be outdated, and somebody may have removed the label by which
// they select objects: keepConfig reads both objects from the API server first.
func (b *beforeRollout) keepConfig(ctx context.Context, p *scope, pod *corev1.Pod, former bool) (*pods.Problem, error) {
	if _, err := b.configs.Get(pod.Namespace, pod.Name); !apierrors.IsNotFound(err) {
		return nil, nil
	}
	if _, err := b.client.ConfigMaps(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return nil, wrapped(err, "reading", "ConfigMap", pod)
	}
	live, err := b.client.Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) || err == nil && live.ResourceVersion != pod.ResourceVersion:
		return nil, nil // an event of the Pod will come
	case err != nil:
		return nil, wrapped(err, "reading", "Pod", pod)
	case !former:
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
