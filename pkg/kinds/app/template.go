package app

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

const (
	// appLabel on a Pod names its App. Pods of Helm charts can have the labels of selectorOf, but not this
	// label.
	appLabel = "windlass.dev/app"
	// templateAnnotation on the Pod template identifies what the App says about its Pods. It changes if and only
	// if the Pods have to be replaced. Pods of the newest template have the annotation of the Deployment.
	templateAnnotation = "windlass.dev/template-digest"
)

// narrowSelector returns the labels by which the Service and the PodDisruptionBudget select the Pods of an
// App. Unlike the labels of selectorOf, they do not match Pods of Helm charts.
func narrowSelector(app *v1alpha1.App) map[string]string {
	selector := selectorOf(app)
	selector[appLabel] = app.Name
	return selector
}

// podLabels are the labels of an App that its Pods have too. A Platform sets them.
var podLabels = []string{"app.kubernetes.io/part-of", "app.kubernetes.io/component"}

// addOwn adds the fields of a Pod template that the operator decides, and not the App. Templates of earlier operator
// versions lack some of them: see keepTemplate.
func addOwn(app *v1alpha1.App, template *corev1.PodTemplateSpec) {
	digest := digestOfTemplate(template)
	template.Labels = narrowSelector(app)
	template.Labels[controller.ManagedByLabel] = controller.ManagedByWindlass // so that the operator caches the Pods
	for _, name := range podLabels {
		if value := app.Labels[name]; value != "" {
			template.Labels[name] = value
		}
	}
	if template.Annotations == nil {
		template.Annotations = map[string]string{}
	}
	template.Annotations[templateAnnotation] = digest
	if app.Spec.ServiceAccountName == "" {
		template.Spec.AutomountServiceAccountToken = ptr.To(false)
	}
	for i := range template.Spec.Containers {
		template.Spec.Containers[i].TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	}
}

// removeOwn removes the fields of addOwn from a template.
func removeOwn(template *corev1.PodTemplateSpec) {
	template.Labels = nil
	delete(template.Annotations, templateAnnotation)
	template.Spec.AutomountServiceAccountToken = nil
	for i := range template.Spec.Containers {
		template.Spec.Containers[i].TerminationMessagePolicy = ""
	}
}

// digestOfTemplate returns the value of templateAnnotation.
func digestOfTemplate(template *corev1.PodTemplateSpec) string {
	template = template.DeepCopy()
	removeOwn(template)
	text, _ := json.Marshal(template) // marshaling a template cannot fail
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:digestLength]
}

// keepTemplate keeps the fields of addOwn as they are until the App changes its template, so that an upgrade
// of the operator, or a change of a label, replaces no Pod. Without a valid record, it keeps the fields only if
// the template lacks templateAnnotation, as a template of an earlier version does: otherwise nobody would
// correct these fields after another client has changed them and the record.
func keepTemplate(want, live *appsv1.Deployment) {
	last, known := pods.LastTemplate(live)
	now := &live.Spec.Template
	switch {
	case known && pods.Same(last, &want.Spec.Template, removeOwn):
		want.Spec.Template = *last
	case !known && now.Annotations[templateAnnotation] == "":
		copyOwn(&want.Spec.Template, now)
	}
}

// isReverted reports whether an update to want changes the template of a live Deployment back to the template
// that the operator applied last, which has the digest applied: another client has changed the template. `kubectl
// rollout undo` also changes the annotations, and with them the record.
func isReverted(applied string, want, live *appsv1.Deployment) bool {
	wanted, now := &want.Spec.Template, &live.Spec.Template
	if applied == "" || wanted.Annotations[templateAnnotation] != applied || len(now.Spec.Containers) == 0 {
		return false
	}
	before, after := now.Spec.Containers[0], wanted.Spec.Containers[0]
	return now.Annotations[templateAnnotation] != applied || before.Image != after.Image ||
		!slices.Equal(before.Command, after.Command) || !slices.Equal(before.Args, after.Args)
}

// copyOwn copies the fields of addOwn from the template of a live Deployment that lacks templateAnnotation.
func copyOwn(want, live *corev1.PodTemplateSpec) {
	for name := range want.Labels {
		if value, found := live.Labels[name]; found {
			want.Labels[name] = value
		} else {
			delete(want.Labels, name)
		}
	}
	delete(want.Annotations, templateAnnotation)
	want.Spec.AutomountServiceAccountToken = live.Spec.AutomountServiceAccountToken
	for i := range want.Spec.Containers {
		policy := corev1.TerminationMessagePolicy("")
		if i < len(live.Spec.Containers) && live.Spec.Containers[i].TerminationMessagePolicy != corev1.TerminationMessageReadFile {
			policy = live.Spec.Containers[i].TerminationMessagePolicy
		}
		want.Spec.Containers[i].TerminationMessagePolicy = policy
	}
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
