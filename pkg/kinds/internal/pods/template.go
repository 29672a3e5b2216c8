package pods

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/controller/children"
)

// LastTemplate returns the Pod template that the operator desired last for a live Deployment or StatefulSet, from its
// record. known is false if the record is invalid, or has only the digest of the template.
func LastTemplate(live metav1.Object) (template *corev1.PodTemplateSpec, known bool) {
	var record struct {
		Spec struct {
			Template corev1.PodTemplateSpec `json:"template"`
		} `json:"spec"`
	}
	err := json.Unmarshal([]byte(live.GetAnnotations()[children.RecordAnnotation]), &record)
	return &record.Spec.Template, err == nil && len(record.Spec.Template.Spec.Containers) > 0
}

// RestartedAt is the path of the annotation that `kubectl rollout restart` sets in a Deployment or StatefulSet.
var RestartedAt = []string{"spec", "template", "metadata", "annotations", "kubectl.kubernetes.io/restartedAt"}

// OperatorFields are the operator fields of a Pod template, in the form of the function that removes them from a
// template. Operator fields are the fields whose values the operator chooses: they do not come from the spec. A
// difference in operator fields alone must not replace a Pod.
type OperatorFields func(template *corev1.PodTemplateSpec)

// Without returns a copy of a template without its operator fields.
func (f OperatorFields) Without(template *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
	template = template.DeepCopy()
	f(template)
	return template
}

// Keep replaces a desired template by last, the template that the operator desired last, if they differ only in
// operator fields. An upgrade of the operator therefore replaces no Pod.
func (f OperatorFields) Keep(desired, last *corev1.PodTemplateSpec) {
	if equality.Semantic.DeepEqual(f.Without(last), f.Without(desired)) {
		*desired = *last
	}
}

// Container returns the container with a name, or nil. Other clients can add containers at any place.
func Container(template *corev1.PodTemplateSpec, name string) *corev1.Container {
	for i := range template.Spec.Containers {
		if template.Spec.Containers[i].Name == name {
			return &template.Spec.Containers[i]
		}
	}
	return nil
}
