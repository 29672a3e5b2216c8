package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// PlatformComponentPhase is the phase of a component: the phase of its child, or Waiting, Removing,
// Removed or Absent.
type PlatformComponentPhase string

// Phases of a component in addition to the phases of its child.
const (
	// ComponentWaiting means that the component waits for the namespace or for other components. A component starts when
	// its dependencies are Ready, and is removed after the components that depend on it.
	ComponentWaiting PlatformComponentPhase = "Waiting"
	// ComponentRemoving means that the child is being deleted.
	ComponentRemoving PlatformComponentPhase = "Removing"
	// ComponentRemoved means that the component is Removed and has no child.
	ComponentRemoved PlatformComponentPhase = "Removed"
	// ComponentAbsent means that the component is Unmanaged and has no child.
	ComponentAbsent PlatformComponentPhase = "Absent"
)

// PlatformComponentStatus is the observed state of a component.
type PlatformComponentStatus struct {
	// name is the name of the component.
	Name ComponentName `json:"name"`

	// kind is the kind of the component: App, Database, ExternalDatabase or At.
	Kind string `json:"kind"`

	// managementState is the managementState in the spec, with two exceptions: it is Managed while an
	// Unmanaged component is not released yet, and Removed if the component is no longer in the spec.
	ManagementState ManagementState `json:"managementState"`

	// phase is the phase of the child, or Waiting, Removing, Removed or Absent. Waiting means that the component waits for
	// other components or for the namespace. Removing means that the child is being deleted. Removed and Absent mean that
	// a Removed or an Unmanaged component has no child.
	//
	// +optional
	Phase PlatformComponentPhase `json:"phase,omitempty"`

	// reason is the reason of the child's condition Ready, or the reason why the component waits.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`

	// message is the message of the child's condition Ready, or says what the component waits for or
	// which error occurred. It has at most 1024 bytes.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=32768
	Message string `json:"message,omitempty"`

	// runs are the last three runs of a component that is an At, newest first. A run is listed after it has ended.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=3
	Runs []PlatformTaskRun `json:"runs,omitempty"`
}

// PlatformTaskRun is a run of a component that is an At: the result of one At. Its fields have the same
// meaning as in the status of an At.
type PlatformTaskRun struct {
	// uid is the UID of the At.
	UID types.UID `json:"uid"`

	// image is the image in the spec of the At. It is empty if the At has none. If the image has more than 256 characters,
	// the field has the first 256.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Image string `json:"image,omitempty"`

	// startTime is the time at which the At became Running. It is unset if the command was not started.
	//
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// completionTime is the time at which the command ended.
	//
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// succeeded is true if the command ended with exit code 0.
	Succeeded bool `json:"succeeded"`

	// reason is the reason of the condition Complete or Failed of the At.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`

	// exitCode is the exit code of the last container that ended.
	//
	// +optional
	ExitCode *int32 `json:"exitCode,omitempty"`
}
