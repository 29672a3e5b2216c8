package app

import (
	"encoding/json"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/children"
)

// appLabel on a Pod names its App. Pods of Helm charts can have the labels of selectorOf, but not this
// label. The managed-by label is not used, because the operator would then cache the Pods of Apps, which it
// does not read.
const appLabel = "windlass.dev/app"

// narrowSelector returns the labels by which the Service and the PodDisruptionBudget select the Pods of an
// App. Unlike the labels of selectorOf, they do not match Pods of Helm charts.
func narrowSelector(app *v1alpha1.App) map[string]string {
	selector := selectorOf(app)
	selector[appLabel] = app.Name
	return selector
}

// addLater adds the fields that Pod templates of earlier operator versions lack. See keepTemplate.
func addLater(app *v1alpha1.App, template *corev1.PodTemplateSpec) {
	template.Labels = narrowSelector(app)
	if app.Spec.ServiceAccountName == "" {
		template.Spec.AutomountServiceAccountToken = ptr.To(false)
	}
}

// keepTemplate keeps the Pod template of an earlier operator version until the App changes it, so that an
// upgrade of the operator replaces no Pod. Once the App changes the template, the new template also has the
// fields of addLater.
func keepTemplate(want, live *appsv1.Deployment) {
	if live.Spec.Template.Labels[appLabel] == want.Spec.Template.Labels[appLabel] {
		return
	}
	earlier := want.Spec.Template.DeepCopy()
	delete(earlier.Labels, appLabel)
	earlier.Spec.AutomountServiceAccountToken = nil
	last, known := lastTemplate(live)
	if !known || equality.Semantic.DeepEqual(last, earlier) {
		want.Spec.Template = *earlier
	}
}

// lastTemplate returns the last desired template, which is in the record of the Deployment. known is
// false if the record is invalid or shortened.
func lastTemplate(live *appsv1.Deployment) (template *corev1.PodTemplateSpec, known bool) {
	var record appsv1.Deployment
	err := json.Unmarshal([]byte(live.Annotations[children.RecordAnnotation]), &record)
	// The record of a large object has no values, and therefore no image.
	containers := record.Spec.Template.Spec.Containers
	return &record.Spec.Template, err == nil && len(containers) > 0 && containers[0].Image != ""
}

// podSelector returns the selector for the Pods of an App whose Deployment is d, or nil. now is the current
// selector, or nil. The selector includes appLabel only when all Pods have that label: if the template has
// always had it, after a complete rollout of a template with it, or if now includes it. In other cases
// appLabel could exclude running Pods.
func podSelector(app *v1alpha1.App, d *appsv1.Deployment, now map[string]string) map[string]string {
	narrow := narrowSelector(app)
	switch {
	case d == nil || d.Spec.Template.Labels[appLabel] != app.Name:
		return selectorOf(app)
	case d.Generation <= 1 && now == nil, now[appLabel] == app.Name, !d.Spec.Paused && rolloutOf(app, d).State == controller.StateReady:
		return narrow
	}
	return selectorOf(app)
}

// labelsOf returns the labels of a selector that may be nil.
func labelsOf(selector *metav1.LabelSelector) map[string]string {
	if selector == nil {
		return nil
	}
	return selector.MatchLabels
}
