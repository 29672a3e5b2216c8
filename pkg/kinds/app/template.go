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

// appLabel on a Pod names its App. Charts that label their Pods name=app do not set it. It is
// not the label by which this operator caches Pods: it has no use for those of Apps.
const appLabel = "windlass.dev/app"

// narrowSelector returns the labels by which Service and disruption budget tell the Pods of an
// App from those of others that bear the labels of selectorOf.
func narrowSelector(app *v1alpha1.App) map[string]string {
	selector := selectorOf(app)
	selector[appLabel] = app.Name
	return selector
}

// addLater adds to a Pod template what templates of earlier versions do not have. See
// keepTemplate.
func addLater(app *v1alpha1.App, template *corev1.PodTemplateSpec) {
	template.Labels = narrowSelector(app)
	if app.Spec.ServiceAccountName == "" {
		template.Spec.AutomountServiceAccountToken = ptr.To(false)
	}
}

// keepTemplate keeps the Pod template of an earlier version as long as nothing else about it
// changes: a new version of the operator replaces no Pod. With the next change comes what
// addLater adds.
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

// lastTemplate returns the template that was wanted last. It is not known if somebody has
// broken the record.
func lastTemplate(live *appsv1.Deployment) (template *corev1.PodTemplateSpec, known bool) {
	var record appsv1.Deployment
	err := json.Unmarshal([]byte(live.Annotations[children.RecordAnnotation]), &record)
	// The record of a large object is shortened: it has no values, and so no image.
	containers := record.Spec.Template.Spec.Containers
	return &record.Spec.Template, err == nil && len(containers) > 0 && containers[0].Image != ""
}

// podSelector returns what selects the Pods of an App once its Deployment is d. now is what
// selects them so far, or nil. All Pods must bear a label before it is selected by, or those
// that do not are cut off: those of a Deployment whose template has always had it, and those
// that were rolled out since.
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
