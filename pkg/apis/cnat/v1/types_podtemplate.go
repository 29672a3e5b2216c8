package v1

import "k8s.io/apimachinery/pkg/runtime"

// PodTemplate is a patch of the Pod template that the operator generates. The operator merges it as `kubectl patch`
// does by default: it replaces values, merges objects, and merges the items of lists such as containers, env and
// volumes by their names. A podTemplate is limited to 32 KiB as JSON, and each of its lists to 256 items.
type PodTemplate struct {
	// metadata are labels and annotations of the Pods.
	//
	// +optional
	Metadata PodTemplateMetadata `json:"metadata,omitempty,omitzero"`

	// spec is merged into the spec of the Pods: see `kubectl explain pod.spec`. The API server stores it without
	// validation. If a field does not exist or has a wrong type, the condition Ready says so.
	//
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Spec *runtime.RawExtension `json:"spec,omitempty"`
}

// PodTemplateMetadata has the labels and annotations of Pods.
type PodTemplateMetadata struct {
	// labels are added to the labels of the Pods. The labels that the operator sets, and keys that begin with
	// windlass.dev/ or cnat.programming-kubernetes.info/, are reserved.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Labels map[string]string `json:"labels,omitempty"`

	// annotations are added to the annotations of the Pods. Keys that begin with windlass.dev/ or
	// cnat.programming-kubernetes.info/ are reserved.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Annotations map[string]string `json:"annotations,omitempty"`
}
