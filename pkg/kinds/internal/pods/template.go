package pods

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/controller/children"
)

// LastTemplate returns the Pod template that the operator desired last for a live Deployment or StatefulSet, from its
// record. known is false if the record is invalid or shortened.
func LastTemplate(live metav1.Object) (template *corev1.PodTemplateSpec, known bool) {
	var record struct {
		Spec struct {
			Template corev1.PodTemplateSpec `json:"template"`
		} `json:"spec"`
	}
	err := json.Unmarshal([]byte(live.GetAnnotations()[children.RecordAnnotation]), &record)
	// A shortened record has no values, and therefore no image.
	containers := record.Spec.Template.Spec.Containers
	return &record.Spec.Template, err == nil && len(containers) > 0 && containers[0].Image != ""
}

// OperatorFields copies the operator fields of a Pod template: the fields that the operator sets itself, and not from the
// spec. A difference in operator fields alone must not replace a Pod.
type OperatorFields func(to, from *corev1.PodTemplateSpec)

// Without returns a copy of a template without its operator fields.
func (f OperatorFields) Without(template *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
	template = template.DeepCopy()
	empty := &corev1.PodTemplateSpec{}
	for i := range template.Spec.Containers {
		empty.Spec.Containers = append(empty.Spec.Containers, corev1.Container{Name: template.Spec.Containers[i].Name})
	}
	f(template, empty)
	return template
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

// Keep keeps the operator fields of the template of a live Deployment or StatefulSet until the spec changes the template,
// so that an upgrade of the operator replaces no Pod. It compares the desired template with the record of owner. Users can
// write the record: isOurs reports whether the operator can have set the operator fields of the template in it. Without a
// valid record, only a template of an earlier operator version keeps its operator fields, which isEarlier reports. A
// template of this version gets the desired ones, so that drift is corrected even if another client has damaged the
// record.
func (f OperatorFields) Keep(owner metav1.Object, desired, live *corev1.PodTemplateSpec, isOurs, isEarlier func(*corev1.PodTemplateSpec) bool) {
	last, known := LastTemplate(owner)
	switch {
	case known && isOurs(last) && equality.Semantic.DeepEqual(f.Without(last), f.Without(desired)):
		*desired = *last
	case !known && isEarlier(live):
		f(desired, live)
	}
}
