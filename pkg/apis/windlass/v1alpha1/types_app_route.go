package v1alpha1

// AppRoute configures the route of an App: an HTTPRoute of Gateway API, or a GRPCRoute if the first port of the App has
// appProtocol grpc.
type AppRoute struct {
	// parentRefs are the Gateways and ListenerSets that the route attaches to. Two entries with the same Gateway need
	// different values of sectionName.
	//
	// +required
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	ParentRefs []AppParentRef `json:"parentRefs"`

	// hostnames are the DNS names at which clients reach the App. The first label of a name can be a wildcard, as in
	// *.example.com. Defaults to the hostnames of the Gateways.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.all(host, host.matches('^([*][.])?[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$') && !host.matches('^[0-9.]+$'))",message="each of hostnames must be a DNS name in lower case, such as shop.example.com or *.example.com, and no IP address"
	// +listType=set
	Hostnames []string `json:"hostnames,omitempty"`

	// path is the prefix of the URL paths that lead to the App. It must be unset if the first port has appProtocol grpc.
	// Defaults to /.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^/([-A-Za-z0-9/._~!$&()*+,;=:@]|%[0-9a-fA-F]{2})*$`
	// +kubebuilder:validation:XValidation:rule="!self.contains('//') && !self.contains('/../') && !self.contains('/./') && !self.endsWith('/..') && !self.endsWith('/.')",message="path must not have an empty segment, or a segment '.' or '..'"
	Path string `json:"path,omitempty"`
}

// AppParentRef is a reference to a Gateway or a ListenerSet, or to one of its listeners.
type AppParentRef struct {
	// kind is Gateway or ListenerSet. Defaults to Gateway.
	//
	// +optional
	// +kubebuilder:default=Gateway
	// +kubebuilder:validation:Enum=Gateway;ListenerSet
	Kind string `json:"kind,omitempty"`

	// name is the name of the Gateway or ListenerSet.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// namespace is the namespace of the Gateway or ListenerSet. Defaults to the namespace of the App.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespace string `json:"namespace,omitempty"`

	// sectionName is the name of a listener. Defaults to all listeners.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	SectionName string `json:"sectionName,omitempty"`
}
