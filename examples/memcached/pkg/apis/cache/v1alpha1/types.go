package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MemcachedSpec is the desired state of a Memcached.
type MemcachedSpec struct {
	// replicas is the number of servers. Each server has its own items.
	//
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	Replicas *int32 `json:"replicas,omitempty"`

	// image is the container image of the servers.
	//
	// +optional
	// +kubebuilder:default="memcached:1.6"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Image string `json:"image,omitempty"`

	// memoryMegabytes is the memory for the items of one server, in units of 2^20 bytes.
	//
	// +optional
	// +kubebuilder:default=64
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1048576
	MemoryMegabytes int32 `json:"memoryMegabytes,omitempty"`

	// argumentsFrom names a ConfigMap. Its key "arguments" has further arguments of the command
	// memcached, separated by white space. The servers start once the ConfigMap exists, and are
	// replaced when the arguments change.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="size(self.name) > 0",message="argumentsFrom needs the name of a ConfigMap"
	ArgumentsFrom *corev1.LocalObjectReference `json:"argumentsFrom,omitempty"`
}

// MemcachedStatus is the observed state of the servers.
type MemcachedStatus struct {
	// observedGeneration is the metadata.generation that this status describes.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Ready, Progressing, Degraded, and Stalled (present only while it is True).
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// replicas is the number of Pods.
	//
	// +optional
	Replicas int32 `json:"replicas"`

	// readyReplicas is the number of ready Pods.
	//
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`

	// selector selects the Pods, for the scale subresource.
	//
	// +optional
	Selector string `json:"selector,omitempty"`
}

// Memcached is a set of memcached servers behind a headless Service.
//
// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:path=memcacheds,singular=memcached,scope=Namespaced
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Available",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",fieldPath=".metadata",message="the name must be valid for a Service: at most 63 characters, lower-case letters, digits and '-', beginning with a letter, and ending with a letter or a digit"
type Memcached struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec MemcachedSpec `json:"spec,omitempty,omitzero"`
	// +optional
	Status MemcachedStatus `json:"status,omitempty,omitzero"`
}

// StatusConditions implements controller.Object.
func (m *Memcached) StatusConditions() *[]metav1.Condition { return &m.Status.Conditions }

// StatusObservedGeneration implements controller.Object.
func (m *Memcached) StatusObservedGeneration() *int64 { return &m.Status.ObservedGeneration }

// MemcachedList is a list of Memcacheds.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type MemcachedList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Memcached `json:"items"`
}
