package v1alpha1

import (
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// AppRollout configures how new Pods replace previous Pods.
//
// +kubebuilder:validation:XValidation:rule="!has(self.strategy) || self.strategy != 'Recreate' || !(has(self.maxSurge) || has(self.maxUnavailable))",message="maxSurge and maxUnavailable have no effect with strategy Recreate; remove them"
type AppRollout struct {
	// strategy is RollingUpdate or Recreate. With Recreate, all previous Pods end before new Pods are created. Defaults to
	// Recreate if volumes has a claim without ReadWriteMany, or a persistentVolumeClaim that is not readOnly, and otherwise
	// to RollingUpdate.
	//
	// +optional
	// +kubebuilder:validation:Enum=RollingUpdate;Recreate
	Strategy appsv1.DeploymentStrategyType `json:"strategy,omitempty"`

	// maxSurge is the number or the percentage of Pods that a rollout may create in addition to replicas. Defaults to 25%.
	//
	// +kubebuilder:validation:XValidation:rule="type(self) == int || self.matches('^[0-9]{1,3}%$')",message="maxSurge must be a number, or a percentage such as 25%"
	// +optional
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`

	// maxUnavailable is the number or the percentage of Pods that may be unavailable during a rollout. Defaults to 0, and
	// to 1 if maxSurge is 0.
	//
	// +kubebuilder:validation:XValidation:rule="type(self) == int || self.matches('^[0-9]{1,3}%$')",message="maxUnavailable must be a number, or a percentage such as 25%"
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// minReadySeconds is the time that a Pod must be ready before it counts as available, in seconds. Defaults to 0 for an
	// App with a readiness probe, and to 5 without one.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	MinReadySeconds *int32 `json:"minReadySeconds,omitempty"`

	// progressDeadlineSeconds is the time without progress after which a rollout counts as failed, in seconds. It must be
	// greater than minReadySeconds. Defaults to 600.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`

	// revisionHistoryLimit is the number of previous ReplicaSets that the Deployment keeps for a rollback. Defaults to 10.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
}

// AppShutdown configures how a Pod ends. A change replaces the Pods.
type AppShutdown struct {
	// delaySeconds is how long the container continues to serve requests after the deletion of its Pod begins and before
	// the container gets the stop signal, in seconds. Nodes and load balancers learn within this time that the Pod ends.
	// Defaults to 5, and to 0 for an App without ports.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	DelaySeconds *int64 `json:"delaySeconds,omitempty"`

	// gracePeriodSeconds is the time that the container has to end after the stop signal, in seconds. The grace period of
	// the Pod is the sum of delaySeconds and gracePeriodSeconds. Defaults to 30.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=604800
	GracePeriodSeconds *int64 `json:"gracePeriodSeconds,omitempty"`
}
