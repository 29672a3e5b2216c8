package v1alpha1

import autoscalingv2 "k8s.io/api/autoscaling/v2"

// AppAutoscaling configures the HorizontalPodAutoscaler of an App. The number of Pods is the highest number that one of
// the targets asks for. Without any target, the target is a CPU utilization of 80 percent.
//
// +kubebuilder:validation:XValidation:rule="!has(self.minReplicas) || self.minReplicas <= self.maxReplicas",message="autoscaling.minReplicas must not be greater than autoscaling.maxReplicas"
// +kubebuilder:validation:XValidation:rule="!has(self.minReplicas) || self.minReplicas > 0 || (has(self.metrics) && self.metrics.exists(m, m.type == 'Object' || m.type == 'External'))",message="minReplicas may only be 0 if metrics has an entry of type Object or External, because there are no Pods to measure"
type AppAutoscaling struct {
	// minReplicas is the lower limit for the number of Pods. 0 needs a cluster with the feature HPAScaleToZero
	// (Kubernetes 1.37 or later), and a metric of type Object or External. Defaults to 1.
	//
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	MinReplicas *int32 `json:"minReplicas,omitempty"`

	// maxReplicas is the upper limit for the number of Pods. It must not be less than minReplicas.
	//
	// +required
	// +kubebuilder:validation:Minimum=1
	MaxReplicas int32 `json:"maxReplicas"`

	// targetCPUUtilizationPercentage is the target for the average CPU utilization of all Pods, as a
	// percentage of resources.requests.cpu. Defaults to 80 if no other target is set.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	TargetCPUUtilizationPercentage *int32 `json:"targetCPUUtilizationPercentage,omitempty"`

	// targetMemoryUtilizationPercentage is the target for the average memory utilization of all Pods, as a percentage of
	// resources.requests.memory. If it is unset, memory does not matter.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	TargetMemoryUtilizationPercentage *int32 `json:"targetMemoryUtilizationPercentage,omitempty"`

	// metrics are further targets, as in a HorizontalPodAutoscaler: see `kubectl explain hpa.spec.metrics
	// --api-version=autoscaling/v2`.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	Metrics []autoscalingv2.MetricSpec `json:"metrics,omitempty"`

	// behavior limits how fast the number of Pods changes, as in a HorizontalPodAutoscaler: see `kubectl explain
	// hpa.spec.behavior --api-version=autoscaling/v2`.
	//
	// +optional
	Behavior *autoscalingv2.HorizontalPodAutoscalerBehavior `json:"behavior,omitempty"`
}
