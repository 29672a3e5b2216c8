package v1alpha1

import corev1 "k8s.io/api/core/v1"

// AppPort is a port on which the container of an App listens, and to which a port of the Service leads.
type AppPort struct {
	// name is the name of the port in the container and in the Service, for example http.
	//
	// +required
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]+(-[a-z0-9]+)*$') && self.matches('[a-z]')",message="the name of a port has lower-case letters, digits and '-', at least one letter, and begins and ends with a letter or a digit"
	Name string `json:"name"`

	// port is the port on which the container listens.
	//
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`

	// servicePort is the port of the Service. Defaults to 80 if the name is http, and otherwise to port.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	ServicePort int32 `json:"servicePort,omitempty"`

	// protocol is TCP, UDP or SCTP. Defaults to TCP.
	//
	// +optional
	// +kubebuilder:default=TCP
	// +kubebuilder:validation:Enum=TCP;UDP;SCTP
	Protocol corev1.Protocol `json:"protocol,omitempty"`

	// appProtocol is the application protocol of the port of the Service, for example https, grpc or kubernetes.io/h2c.
	// If the first port has grpc, the route of the App is a GRPCRoute, and this port of the Service has
	// kubernetes.io/h2c.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	AppProtocol *string `json:"appProtocol,omitempty"`
}

// AppService configures the Service of an App.
//
// +kubebuilder:validation:XValidation:rule="!has(self.externalTrafficPolicy) || (has(self.type) && self.type in ['NodePort', 'LoadBalancer'])",message="externalTrafficPolicy needs type NodePort or LoadBalancer"
// +kubebuilder:validation:XValidation:rule="(!has(self.loadBalancerClass) && !has(self.loadBalancerSourceRanges)) || (has(self.type) && self.type == 'LoadBalancer')",message="loadBalancerClass and loadBalancerSourceRanges need type LoadBalancer"
type AppService struct {
	// annotations are the annotations of the Service. Keys by which the operator or a GitOps tool finds its objects are
	// reserved, for example keys that begin with windlass.dev/.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(key, !['windlass.dev/', 'argocd.argoproj.io/', 'kapp.k14s.io/', 'objectset.rio.cattle.io/', 'config.k8s.io/', 'meta.helm.sh/', 'kustomize.toolkit.fluxcd.io/', 'helm.toolkit.fluxcd.io/'].exists(prefix, key.startsWith(prefix)))",message="annotations by which the operator or a GitOps tool finds its objects are reserved: windlass.dev/, argocd.argoproj.io/, kapp.k14s.io/, objectset.rio.cattle.io/, config.k8s.io/, meta.helm.sh/, kustomize.toolkit.fluxcd.io/ and helm.toolkit.fluxcd.io/"
	Annotations map[string]string `json:"annotations,omitempty"`

	// type is ClusterIP, NodePort or LoadBalancer. Defaults to ClusterIP.
	//
	// +optional
	// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer
	Type corev1.ServiceType `json:"type,omitempty"`

	// externalTrafficPolicy is Cluster or Local. With Local, a node sends external requests only to its own Pods, which
	// then see the address of the client. externalTrafficPolicy needs type NodePort or LoadBalancer. Defaults to Cluster.
	//
	// +optional
	// +kubebuilder:validation:Enum=Cluster;Local
	ExternalTrafficPolicy corev1.ServiceExternalTrafficPolicy `json:"externalTrafficPolicy,omitempty"`

	// trafficDistribution prefers Pods in the same zone (PreferSameZone) or on the same node (PreferSameNode) as the
	// client.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	TrafficDistribution *string `json:"trafficDistribution,omitempty"`

	// sessionAffinity is None or ClientIP. With ClientIP, the requests of a client go to the same Pod. Defaults to None.
	//
	// +optional
	// +kubebuilder:validation:Enum=None;ClientIP
	SessionAffinity corev1.ServiceAffinity `json:"sessionAffinity,omitempty"`

	// loadBalancerClass is the class of the load balancer. It needs type LoadBalancer, and cannot be changed. Defaults to
	// the load balancer of the cluster.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	LoadBalancerClass *string `json:"loadBalancerClass,omitempty"`

	// loadBalancerSourceRanges are the ranges of client addresses that the load balancer accepts, in CIDR notation.
	// loadBalancerSourceRanges needs type LoadBalancer. Defaults to all addresses.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=64
	// +listType=set
	LoadBalancerSourceRanges []string `json:"loadBalancerSourceRanges,omitempty"`
}
