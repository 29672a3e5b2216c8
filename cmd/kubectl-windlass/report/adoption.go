package report

import (
	"encoding/json"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/kinds/app"
	"windlass.dev/windlass/pkg/plan"
)

// isAdoption reports whether a write makes an object of somebody else a child.
func isAdoption(w *plan.Write) bool {
	if w.Writer == "" || w.Before == nil || w.After == nil {
		return false
	}
	_, marked := w.Before.GetAnnotations()[children.AdoptAnnotation]
	_, still := w.After.GetAnnotations()[children.AdoptAnnotation]
	return marked && !still
}

// toKeepPods returns the fields to add to an App, as YAML, so that a Deployment keeps its Pods when it is adopted. It
// returns "" if the Deployment keeps its Pods, or if no fields are enough.
func toKeepPods(w *plan.Write) string {
	var before, after appsv1.Deployment
	convert := runtime.DefaultUnstructuredConverter.FromUnstructured
	if convert(w.Before.Object, &before) != nil || convert(w.After.Object, &after) != nil {
		return ""
	}
	var spec v1alpha1.AppSpec
	if json.Unmarshal([]byte(after.Annotations[app.SpecAnnotation]), &spec) != nil {
		return ""
	}
	fields, err := app.FieldsToKeepPods(&spec, &after.Spec.Template, &before.Spec.Template)
	if err != nil || len(fields) == 0 {
		return ""
	}
	text, err := yaml.Marshal(fields)
	if err != nil {
		return ""
	}
	return string(text)
}
