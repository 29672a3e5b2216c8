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

// Same reports whether two templates differ at most in fields that the operator decides, and not the user. removeOwn
// removes these fields from a template. A difference in them alone must not replace any Pod.
func Same(a, b *corev1.PodTemplateSpec, removeOwn func(*corev1.PodTemplateSpec)) bool {
	a, b = a.DeepCopy(), b.DeepCopy()
	removeOwn(a)
	removeOwn(b)
	return equality.Semantic.DeepEqual(a, b)
}
