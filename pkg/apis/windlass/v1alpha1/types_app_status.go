package v1alpha1

// AppStatus is the observed state of an App. The condition Ready is True if the newest Pods are rolled out
// and available.
type AppStatus struct {
	ConditionedStatus `json:",inline"`

	// phase is Pending, Deploying, Ready or Failed. Pending means that an object that the App needs does not exist, or
	// that the operator could not create or update the Deployment and retries. Deploying means that Pods are being
	// created, replaced or scheduled, or that some are not available. Ready means that the newest Pods are rolled out and
	// available. Failed means that Pods do not start, crash or are rejected, or that a user has to act for another reason.
	//
	// +optional
	Phase AppPhase `json:"phase,omitempty"`

	// replicas is the number of Pods. During a rollout, it is updated only when the status or the reason
	// of the condition Ready changes.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	Replicas int32 `json:"replicas"`

	// readyReplicas is the number of ready Pods. It is updated together with replicas.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	ReadyReplicas int32 `json:"readyReplicas"`

	// selector is the label selector of the Pods, for the scale subresource.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Selector string `json:"selector,omitempty"`

	// url is the URL of the first host of the Ingress that is not a wildcard, or else of the route. Without such a host,
	// url is the URL of the first port of the Service, which only clients in the cluster reach. url is unset if this port
	// is not a TCP port, or if the App has no Service.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	URL string `json:"url,omitempty"`

	// templateDigest identifies the Pod template that the operator applied last. The annotation
	// windlass.dev/template-digest of the Pods identifies their template in the same way.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=64
	TemplateDigest string `json:"templateDigest,omitempty"`

	// lastAvailable is the last Pod template whose Pods were all rolled out and available.
	//
	// +optional
	LastAvailable *AvailableTemplate `json:"lastAvailable,omitempty"`

	// beforeRolloutRuns are the last ten runs of spec.beforeRollout, newest first. Each run is for another Pod template,
	// or for another command.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	BeforeRolloutRuns []BeforeRolloutRun `json:"beforeRolloutRuns,omitempty"`
}

// AvailableTemplate identifies a Pod template of an App whose Pods were all rolled out and available.
type AvailableTemplate struct {
	// templateDigest identifies the Pod template.
	//
	// +required
	// +kubebuilder:validation:MaxLength=64
	TemplateDigest string `json:"templateDigest"`

	// image is the image in the spec of the App.
	//
	// +required
	// +kubebuilder:validation:MaxLength=1024
	Image string `json:"image"`

	// imageID is the image that a Pod ran, with its digest, as the container runtime reports it. It is empty if
	// the operator did not know it when the Pods became available.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	ImageID string `json:"imageID,omitempty"`
}
