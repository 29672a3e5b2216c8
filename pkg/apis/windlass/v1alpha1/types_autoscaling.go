package v1alpha1

// AppAutoscaling bounds the number of Pods.
//
// +kubebuilder:validation:XValidation:rule="!has(self.minReplicas) || self.minReplicas <= self.maxReplicas",message="autoscaling.minReplicas may not be above autoscaling.maxReplicas"
type AppAutoscaling struct {
	// minReplicas is the lowest number of Pods.
	//
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	MinReplicas *int32 `json:"minReplicas,omitempty"`

	// maxReplicas is the highest number of Pods.
	//
	// +required
	// +kubebuilder:validation:Minimum=1
	MaxReplicas int32 `json:"maxReplicas"`

	// targetCPUUtilizationPercentage is the use of CPU to aim at, in percent of
	// resources.requests.cpu.
	//
	// +optional
	// +kubebuilder:default=80
	// +kubebuilder:validation:Minimum=1
	TargetCPUUtilizationPercentage *int32 `json:"targetCPUUtilizationPercentage,omitempty"`
}
