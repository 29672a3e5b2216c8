package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Phases of an At.
const (
	// PhasePending: the command waits for its time.
	PhasePending = "PENDING"
	// PhaseRunning: the time has come, and the Pod is made or about to be.
	PhaseRunning = "RUNNING"
	// PhaseDone: the command has ended, or will never be started.
	PhaseDone = "DONE"
)

// AtSpec says what to run and when.
type AtSpec struct {
	// schedule is the instant at which the command shall run, in RFC 3339 with
	// any offset: 2026-02-10T20:30:00Z or 2026-02-10T21:30:00+01:00.
	//
	// +required
	// +kubebuilder:validation:Format=date-time
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^(19[7-9][0-9]|[2-8][0-9]{3})-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`
	Schedule string `json:"schedule"`

	// command is a line for /bin/sh.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=131072
	Command string `json:"command"`
}

// AtStatus is what was last seen of the command. Beside phase it has the fields of
// v1's status, unchanged: of a write through this version the API server keeps the
// stored status, but only what this version can say of it.
//
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.phase) || (has(self.phase) && (self.phase == oldSelf.phase || oldSelf.phase == 'PENDING' || (oldSelf.phase == 'RUNNING' && self.phase == 'DONE')))",message="phase only goes forward: PENDING, RUNNING, DONE; to run the command again, delete the At and create it anew"
type AtStatus struct {
	// phase is PENDING, RUNNING or DONE.
	//
	// +optional
	// +kubebuilder:validation:Enum=PENDING;RUNNING;DONE
	Phase string `json:"phase,omitempty"`

	// observedGeneration is the metadata.generation that this status speaks of.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Ready (the command ended well), Progressing, Degraded,
	// Stalled (only while True), and at the end Complete or Failed.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// scheduledTime is the schedule as an instant in UTC.
	//
	// +optional
	ScheduledTime *metav1.Time `json:"scheduledTime,omitempty"`

	// startTime is when the At became Running.
	//
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// completionTime is when the At became Done.
	//
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// podName is the Pod that runs the command.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	PodName string `json:"podName,omitempty"`

	// failed counts the Pods that ended with a failure.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	Failed int32 `json:"failed,omitempty"`

	// exitCode is that of the last Pod's container, once it has ended.
	//
	// +optional
	ExitCode *int32 `json:"exitCode,omitempty"`
}

// At runs a command at a time.
//
// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=ats,singular=at,scope=Namespaced,shortName=cnat,categories=windlass
// +kubebuilder:printcolumn:name="Schedule",type=string,JSONPath=`.spec.schedule`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || self.metadata.name.size() <= 249",optionalOldSelf=true,message="the name may have 249 characters at most, since its Pod is called <name>-pod"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || has(self.status)",message="status may not be removed"
type At struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec AtSpec `json:"spec"`
	// +optional
	Status AtStatus `json:"status,omitempty"`
}

// AtList is a list of Ats.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type AtList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []At `json:"items"`
}
