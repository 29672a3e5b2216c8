package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

const (
	// runContainer is the name of the only container of the Pod that runs beforeRollout.
	runContainer = "before-rollout"
	// runGate is the scheduling gate of the Pod until the status has the Pod.
	runGate = controller.AnnotationDomain + "/before-rollout"
	// commandAnnotation on the Pod has a digest of spec.beforeRollout.
	commandAnnotation = controller.AnnotationDomain + "/command-digest"
	// configAnnotation on the Pod has the value "true" if the Pod mounts a ConfigMap of its own name.
	configAnnotation = controller.AnnotationDomain + "/mounts-config"
)

// runPodName returns the name of the Pod that runs beforeRollout, and of its ConfigMap.
func runPodName(app *v1alpha1.App) string { return app.Name + runPodSuffix }

const runPodSuffix = "-before-rollout"

func keyOf(app *v1alpha1.App) controller.Key {
	return controller.Key{Namespace: app.Namespace, Name: app.Name}
}

// run identifies a run of beforeRollout. The status has at most one run with the same values.
type run struct {
	template string // the digest of the Pod template
	command  string // the digest of spec.beforeRollout
}

// runIn returns the run of a Pod.
func runIn(pod *corev1.Pod) run {
	return run{template: pod.Annotations[templateAnnotation], command: pod.Annotations[commandAnnotation]}
}

// commandDigest returns a digest of spec.beforeRollout, which is not nil.
func commandDigest(app *v1alpha1.App) string {
	text, _ := json.Marshal(app.Spec.BeforeRollout) // marshaling strings cannot fail
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:digestLength]
}

// desiredRunPod returns the Pod that runs beforeRollout. It has the Pod template of the App, except for the command, the
// ports, the probe, the shutdown and the name of the ConfigMap. It lacks the labels by which the Service and the
// Deployment select the Pods of the App.
func desiredRunPod(app *v1alpha1.App, in inputs, wanted run) *corev1.Pod {
	template := desiredDeployment(app, in).Spec.Template.DeepCopy() // it may share memory with the App
	container := &template.Spec.Containers[0]
	container.Name, container.Ports, container.ReadinessProbe = runContainer, nil, nil
	container.Lifecycle, template.Spec.TerminationGracePeriodSeconds = nil, nil // it serves no requests
	container.Command, container.Args = app.Spec.BeforeRollout.Command, app.Spec.BeforeRollout.Args
	container.Image = runImage(app)
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
	labels := map[string]string{
		"app.kubernetes.io/name":     "before-rollout",
		"app.kubernetes.io/instance": app.Name,
		controller.ManagedByLabel:    controller.ManagedByWindlass,
	}
	pods.CopyPlatformLabels(labels, app)
	return labels
}

// runImage returns the image that runs beforeRollout.
func runImage(app *v1alpha1.App) string {
	if image := app.Spec.BeforeRollout.Image; image != "" {
		return image
	}
	return app.Spec.Image
}

// isGated reports whether a Pod has never run, because it still has its scheduling gate.
func isGated(pod *corev1.Pod) bool {
	return slices.Contains(pod.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: runGate})
}

// openGate lets a Pod run. The precondition is the observed version.
func (b *beforeRollout) openGate(ctx context.Context, app *v1alpha1.App, pod *corev1.Pod) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID, "resourceVersion": pod.ResourceVersion},
		"spec":     map[string]any{"schedulingGates": []any{map[string]any{"$patch": "delete", "name": runGate}}},
	})
	if err != nil {
		return wrapped(err, "removing the scheduling gate of", "Pod", pod)
	}
	changed, err := b.client.Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return controller.AwaitDeletion()
	}
	if err != nil {
		return wrapped(err, "removing the scheduling gate of", "Pod", pod)
	}
	b.tracker.Wrote(keyOf(app), "Pod", b.commands.Cache, changed.ResourceVersion)
	return nil
}

// delete deletes a Pod. The precondition is the observed version, so that a Pod that has started in the meantime is not
// deleted.
func (b *beforeRollout) delete(ctx context.Context, app *v1alpha1.App, pod *corev1.Pod) error {
	if pod.DeletionTimestamp != nil || b.tracker.IsDeleted(keyOf(app), pod.Name, pod.UID) {
		return nil
	}
	err := b.client.Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &pod.UID, ResourceVersion: &pod.ResourceVersion},
	})
	if apierrors.IsNotFound(err) {
		return controller.AwaitDeletion()
	}
	if err != nil {
		return wrapped(err, "deleting", "Pod", pod)
	}
	b.tracker.Deleted(keyOf(app), pod.Name, pod.UID)
	return nil
}

// wrapped adds the action and the object, which has the name of pod, to an error. It returns nil for nil.
func wrapped(err error, action, kind string, pod *corev1.Pod) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s %s/%s: %w", action, kind, pod.Namespace, pod.Name, err)
}
