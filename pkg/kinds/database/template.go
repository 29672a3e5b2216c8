package database

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

// podLabels are the labels of a Database that its Pod has too. A Platform sets them.
var podLabels = []string{"app.kubernetes.io/part-of", "app.kubernetes.io/component"}

// labelsOfPod returns the labels of the Pod template.
func labelsOfPod(db *v1alpha1.Database) map[string]string {
	labels := selectorOf(db)
	for _, name := range podLabels {
		if value := db.Labels[name]; value != "" {
			labels[name] = value
		}
	}
	return labels
}

// keepTemplate keeps the script, the probes and the labels of the Pod as they are until the Database changes the
// template, so that neither an upgrade of the operator nor a change of a label restarts PostgreSQL. Without a valid
// record, it keeps them only if the Pod has no startup probe, as a Pod of an earlier version: otherwise nobody would
// correct them after another client has changed them and the record.
func keepTemplate(want, live *appsv1.StatefulSet) {
	last, known := pods.LastTemplate(live)
	now := &live.Spec.Template
	switch {
	case known && pods.Same(last, &want.Spec.Template, removeOwn):
		want.Spec.Template = *last
	case !known && len(now.Spec.Containers) > 0 && now.Spec.Containers[0].StartupProbe == nil:
		copyOwn(&want.Spec.Template, now)
	}
}

// removeOwn removes the fields of a template that the operator decides, and not the Database.
func removeOwn(template *corev1.PodTemplateSpec) {
	template.Labels = nil
	for i := range template.Spec.Containers {
		c := &template.Spec.Containers[i]
		c.Command, c.StartupProbe, c.ReadinessProbe, c.LivenessProbe, c.Lifecycle = nil, nil, nil, nil, nil
	}
}

// copyOwn copies the fields that removeOwn removes.
func copyOwn(want, live *corev1.PodTemplateSpec) {
	want.Labels = live.Labels
	to, from := &want.Spec.Containers[0], live.Spec.Containers[0].DeepCopy()
	to.Command, to.StartupProbe, to.ReadinessProbe, to.LivenessProbe, to.Lifecycle = from.Command, from.StartupProbe, from.ReadinessProbe, from.LivenessProbe, from.Lifecycle
}
