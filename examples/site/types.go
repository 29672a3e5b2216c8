package site

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersionKind is the kind of Sites.
var GroupVersionKind = schema.GroupVersionKind{Group: "web.example.com", Version: "v1alpha1", Kind: "Site"}

// Site is a web server with the files in its spec. In an operator, a generator writes DeepCopyObject.
type Site struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   Spec   `json:"spec"`
	Status Status `json:"status,omitempty"`
}

// Spec is the desired state of a Site.
type Spec struct {
	// Image is the image of a web server that serves /srv at port 8080.
	Image string `json:"image"`
	// Files are the contents of the files by their names.
	Files map[string]string `json:"files,omitempty"`
	// Host is the host name of the Site for clients outside of the cluster. Without Host, only clients in the cluster can
	// reach the Site.
	Host string `json:"host,omitempty"`
}

// Status is the observed state of a Site.
type Status struct {
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

// StatusConditions implements controller.Object.
func (s *Site) StatusConditions() *[]metav1.Condition { return &s.Status.Conditions }

// StatusObservedGeneration implements controller.Object.
func (s *Site) StatusObservedGeneration() *int64 { return &s.Status.ObservedGeneration }

// DeepCopyObject implements runtime.Object.
func (s *Site) DeepCopyObject() runtime.Object {
	c := *s
	s.DeepCopyInto(&c.ObjectMeta)
	c.Spec.Files, c.Status.Conditions = maps.Clone(s.Spec.Files), slices.Clone(s.Status.Conditions)
	return &c
}
