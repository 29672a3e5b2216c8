package v1alpha1

// ChildMetadata has labels and annotations for the children of an object.
type ChildMetadata struct {
	// labels are labels of all children. Keys of the domains windlass.dev, kubernetes.io and k8s.io are reserved, except
	// app.kubernetes.io/version. So are keys of the domains of GitOps tools, which could delete the children.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(key, key == 'app.kubernetes.io/version' || !key.matches('^([^/]*[.])?(windlass[.]dev|kubernetes[.]io|k8s[.]io|argoproj[.]io|fluxcd[.]io|fluxcd[.]controlplane[.]io|k14s[.]io|cattle[.]io|helm[.]sh|kro[.]run|skaffold[.]dev)/'))",message="keys of the domains windlass.dev, kubernetes.io, k8s.io, argoproj.io, fluxcd.io, fluxcd.controlplane.io, k14s.io, cattle.io, helm.sh, kro.run and skaffold.dev, and of their subdomains, are reserved, except app.kubernetes.io/version, because Kubernetes and GitOps tools find their own objects by such keys"
	// +kubebuilder:validation:XValidation:rule="self.all(key, key.indexOf('/') <= 253 && key.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]$'))",message="each key must be a name of at most 63 letters, digits, '-', '_' and '.', beginning and ending with a letter or a digit, after an optional DNS name in lower case and '/'"
	Labels map[string]LabelValue `json:"labels,omitempty"`

	// annotations are annotations of all children. The same keys are reserved as for labels, and also
	// app.kubernetes.io/version.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(key, !key.matches('^([^/]*[.])?(windlass[.]dev|kubernetes[.]io|k8s[.]io|argoproj[.]io|fluxcd[.]io|fluxcd[.]controlplane[.]io|k14s[.]io|cattle[.]io|helm[.]sh|kro[.]run|skaffold[.]dev)/'))",message="keys of the domains windlass.dev, kubernetes.io, k8s.io, argoproj.io, fluxcd.io, fluxcd.controlplane.io, k14s.io, cattle.io, helm.sh, kro.run and skaffold.dev, and of their subdomains, are reserved, because Kubernetes and GitOps tools find their own objects by such keys"
	// +kubebuilder:validation:XValidation:rule="self.all(key, key.indexOf('/') <= 253 && key.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]$'))",message="each key must be a name of at most 63 letters, digits, '-', '_' and '.', beginning and ending with a letter or a digit, after an optional DNS name in lower case and '/'"
	Annotations map[string]AnnotationValue `json:"annotations,omitempty"`
}

// LabelValue is the value of a label.
//
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$`
type LabelValue string

// AnnotationValue is the value of an annotation.
//
// +kubebuilder:validation:MaxLength=1024
type AnnotationValue string

// Maps returns the labels and annotations as maps of strings.
func (m ChildMetadata) Maps() (labels, annotations map[string]string) {
	return asStrings(m.Labels), asStrings(m.Annotations)
}

func asStrings[V ~string](from map[string]V) map[string]string {
	if from == nil {
		return nil
	}
	to := make(map[string]string, len(from))
	for key, value := range from {
		to[key] = string(value)
	}
	return to
}
