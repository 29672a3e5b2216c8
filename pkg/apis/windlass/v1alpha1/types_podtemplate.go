package v1alpha1

import "k8s.io/apimachinery/pkg/runtime"

// PodTemplate is what a Pod template has besides the fields that the operator generates. The operator merges it into
// the generated template as `kubectl patch` does by default: it replaces values, merges objects, and merges the items
// of lists such as containers, env and volumes by their names. null removes a field. A podTemplate may have 64 KiB, and
// 256 items in each list.
type PodTemplate struct {
	// metadata are labels and annotations of the Pods.
	//
	// +optional
	Metadata PodTemplateMetadata `json:"metadata,omitempty,omitzero"`

	// spec is the spec of the Pods: see `kubectl explain pod.spec`. The operator, and not the API server, checks it. A
	// field that does not exist, or a value of a wrong type, is an error in the condition Ready.
	//
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Spec *runtime.RawExtension `json:"spec,omitempty"`
}

// PodTemplateMetadata has the labels and annotations of Pods.
type PodTemplateMetadata struct {
	// labels are added to the labels of the Pods. The keys by which the operator selects Pods are reserved.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Labels map[string]string `json:"labels,omitempty"`

	// annotations are added to the annotations of the Pods. Keys that begin with windlass.dev/ are reserved.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Annotations map[string]string `json:"annotations,omitempty"`
}
