package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// AppBeforeRollout is a command that runs once for each new Pod template of an App, before any Pod is
// created or replaced. It runs with the environment, the files of config, the resources, the service account
// and the security context of the App's container.
//
// +kubebuilder:validation:XValidation:rule="has(self.command) || has(self.args) || has(self.image)",message="beforeRollout needs command, args or image; without them, it would run the App itself"
type AppBeforeRollout struct {
	// command is the entry point of the container. It does not run in a shell. Defaults to the entry
	// point of the image. spec.command has no effect here.
	//
	// +optional
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MaxLength=131072
	// +listType=atomic
	Command []string `json:"command,omitempty"`

	// args are the arguments of the entry point. Defaults to the arguments in the image, if command is
	// not set. spec.args has no effect here.
	//
	// +optional
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MaxLength=131072
	// +listType=atomic
	Args []string `json:"args,omitempty"`

	// image is the container image. It must not run as root. Defaults to spec.image.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^\S+$`
	Image string `json:"image,omitempty"`
}

// BeforeRolloutPhase is the phase of a run of beforeRollout.
//
// +kubebuilder:validation:Enum=Running;Succeeded;Failed
type BeforeRolloutPhase string

// Phases of a run of beforeRollout.
const (
	// BeforeRolloutRunning means that the Pod of the run exists. Its command may not have started yet.
	BeforeRolloutRunning BeforeRolloutPhase = "Running"
	// BeforeRolloutSucceeded means that the command ended with exit code 0.
	BeforeRolloutSucceeded BeforeRolloutPhase = "Succeeded"
	// BeforeRolloutFailed means that the command failed, or that its Pod was deleted before the operator
	// saw how the command ended.
	BeforeRolloutFailed BeforeRolloutPhase = "Failed"
)

// BeforeRolloutRun is a run of beforeRollout: one Pod.
type BeforeRolloutRun struct {
	// templateDigest identifies the Pod template for which the command ran, in the same way as status.templateDigest.
	//
	// +required
	// +kubebuilder:validation:MaxLength=64
	TemplateDigest string `json:"templateDigest"`

	// commandDigest identifies the content of spec.beforeRollout.
	//
	// +required
	// +kubebuilder:validation:MaxLength=64
	CommandDigest string `json:"commandDigest"`

	// podUID is the UID of the Pod.
	//
	// +required
	PodUID types.UID `json:"podUID"`

	// phase is Running, Succeeded or Failed.
	//
	// +required
	Phase BeforeRolloutPhase `json:"phase"`

	// image is the image of the Pod. If the image has more than 256 characters, the field has the first 256.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Image string `json:"image,omitempty"`

	// startTime is the time at which the Pod was created.
	//
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// completionTime is the time at which the command ended.
	//
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// exitCode is the exit code of the command.
	//
	// +optional
	ExitCode *int32 `json:"exitCode,omitempty"`

	// message says how a failed command ended, and includes the last line of its log.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}
