package database

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

// labelsOfPod returns the labels of the Pod template.
func labelsOfPod(db *v1alpha1.Database) map[string]string {
	labels := selectorOf(db)
	pods.CopyPlatformLabels(labels, db.Labels)
	return labels
}

// operatorFields copies the labels, the start script and the probes of the Pod.
var operatorFields pods.OperatorFields = func(to, from *corev1.PodTemplateSpec) {
	from = from.DeepCopy()
	to.Labels = from.Labels
	for i := range min(len(to.Spec.Containers), len(from.Spec.Containers)) {
		c, other := &to.Spec.Containers[i], &from.Spec.Containers[i]
		c.Command, c.Lifecycle = other.Command, other.Lifecycle
		c.StartupProbe, c.ReadinessProbe, c.LivenessProbe = other.StartupProbe, other.ReadinessProbe, other.LivenessProbe
	}
}

// keepTemplate keeps the operator fields of a live StatefulSet until the Database changes its template, so that neither an
// upgrade of the operator nor a change of a label restarts PostgreSQL. Earlier versions had no startup probe.
func keepTemplate(desired, live *appsv1.StatefulSet) {
	operatorFields.Keep(live, &desired.Spec.Template, &live.Spec.Template, func(template *corev1.PodTemplateSpec) bool {
		return len(template.Spec.Containers) > 0 && template.Spec.Containers[0].StartupProbe == nil
	})
}
