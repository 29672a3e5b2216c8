package v1alpha1

import networkingv1 "k8s.io/api/networking/v1"

// AppIngress configures the Ingress of an App.
//
// +kubebuilder:validation:XValidation:rule="has(self.host) != has(self.hosts)",message="ingress needs either host or hosts"
type AppIngress struct {
	// host is the short form of hosts with one host.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^([*][.])?[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="host must be a DNS name in lower case, such as shop.example.com or *.example.com"
	Host string `json:"host,omitempty"`

	// hosts are the DNS names at which clients reach the App. The first label of a name can be a wildcard, as in
	// *.example.com.
	//
	// +optional
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.all(host, host.matches('^([*][.])?[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$'))",message="each of hosts must be a DNS name in lower case, such as shop.example.com or *.example.com"
	// +listType=set
	Hosts []string `json:"hosts,omitempty"`

	// annotations are the annotations of the Ingress, for example for its controller. Keys by which the operator or a
	// GitOps tool finds its objects are reserved, for example keys that begin with windlass.dev/.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(key, !['windlass.dev/', 'argocd.argoproj.io/', 'kapp.k14s.io/', 'objectset.rio.cattle.io/', 'config.k8s.io/', 'meta.helm.sh/', 'kustomize.toolkit.fluxcd.io/', 'helm.toolkit.fluxcd.io/'].exists(prefix, key.startsWith(prefix)))",message="annotations by which the operator or a GitOps tool finds its objects are reserved: windlass.dev/, argocd.argoproj.io/, kapp.k14s.io/, objectset.rio.cattle.io/, config.k8s.io/, meta.helm.sh/, kustomize.toolkit.fluxcd.io/ and helm.toolkit.fluxcd.io/"
	// +kubebuilder:validation:XValidation:rule="!('kubernetes.io/ingress.class' in self)",message="set className instead of the annotation kubernetes.io/ingress.class"
	Annotations map[string]string `json:"annotations,omitempty"`

	// pathType is Prefix, Exact or ImplementationSpecific. Defaults to Prefix.
	//
	// +optional
	// +kubebuilder:validation:Enum=Prefix;Exact;ImplementationSpecific
	PathType networkingv1.PathType `json:"pathType,omitempty"`

	// path is the URL path that leads to the App. Defaults to /.
	//
	// +optional
	// +kubebuilder:default=/
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^/[^\s]*$`
	// +kubebuilder:validation:XValidation:rule="!self.contains('//') && !self.contains('/../') && !self.contains('/./') && !self.endsWith('/..') && !self.endsWith('/.')",message="path must not have an empty segment, or a segment '.' or '..'"
	Path string `json:"path,omitempty"`

	// className is the name of the IngressClass. Defaults to the default IngressClass of the cluster when
	// the Ingress is created. If the field is removed later, the Ingress keeps its class.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ClassName *string `json:"className,omitempty"`

	// tlsSecretName is the name of the Secret with the TLS certificate for all hosts. The Secret can be created
	// later, for example by a certificate controller. If the field is unset, the Ingress has no TLS.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	TLSSecretName string `json:"tlsSecretName,omitempty"`
}
