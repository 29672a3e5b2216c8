package v1alpha1

// AppAutoscaling configures the HorizontalPodAutoscaler of an App.
//
// +kubebuilder:validation:XValidation:rule="!has(self.minReplicas) || self.minReplicas <= self.maxReplicas",message="autoscaling.minReplicas must not be greater than autoscaling.maxReplicas"
type AppAutoscaling struct {
	// minReplicas is the lower limit for the number of Pods. Defaults to 1.
	//
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	MinReplicas *int32 `json:"minReplicas,omitempty"`

	// maxReplicas is the upper limit for the number of Pods. It must not be less than minReplicas.
	//
	// +required
	// +kubebuilder:validation:Minimum=1
	MaxReplicas int32 `json:"maxReplicas"`

	// targetCPUUtilizationPercentage is the target for the average CPU utilization of all Pods, as a
	// percentage of resources.requests.cpu. Defaults to 80.
	//
	// +optional
	// +kubebuilder:default=80
	// +kubebuilder:validation:Minimum=1
	TargetCPUUtilizationPercentage *int32 `json:"targetCPUUtilizationPercentage,omitempty"`
}
