package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Phases of an At.
const (
	// PhasePending means that the command waits for its scheduled time.
	PhasePending = "PENDING"
	// PhaseRunning means that the scheduled time has come: the Pod exists, or is about to be created.
	PhaseRunning = "RUNNING"
	// PhaseDone means that the command has ended, or will not be started.
	PhaseDone = "DONE"
)

// AtSpec is the desired state of an At: the command, and the time at which it runs. After the command has started, the
// API server rejects changes.
type AtSpec struct {
	// schedule is the time at which the command runs, in RFC 3339 with any offset: 2026-02-10T20:30:00Z or
	// 2026-02-10T21:30:00+01:00. If the time is in the past, the command runs at once. A change takes effect at once while
	// the At is PENDING, and is rejected afterwards.
	//
	// +required
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:XValidation:rule="self.matches('^(19[7-9][0-9]|[2-8][0-9]{3})-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$') && self.matches('^([0-9]{4}-((0[13578]|1[02])-|(0[469]|11)-(0[1-9]|[12][0-9]|30)T|02-(0[1-9]|1[0-9]|2[0-8])T)|([0-9]{2}(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)-02-29T)')",message="schedule must be a time in RFC 3339, such as 2026-02-10T20:30:00Z, in the years 1970 to 8999"
	Schedule string `json:"schedule"`

	// command is a command line, which /bin/sh runs.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=131072
	Command string `json:"command"`
}

// AtStatus is the observed state of an At. Except for phase, its fields are the same as in v1. After a write as
// v1alpha1, the API server keeps only the fields of the stored status that v1alpha1 has.
//
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.phase) || (has(self.phase) && (self.phase == oldSelf.phase || oldSelf.phase == 'PENDING' || (oldSelf.phase == 'RUNNING' && self.phase == 'DONE')))",message="phase only goes forward: PENDING, RUNNING, DONE; to run the command again, create another At"
type AtStatus struct {
	// phase is PENDING, RUNNING or DONE. PENDING means that the command waits for its scheduled time. RUNNING means that
	// the Pod exists, or is about to be created. DONE means that the command has ended, or will not be started.
	//
	// +optional
	// +kubebuilder:validation:Enum=PENDING;RUNNING;DONE
	Phase string `json:"phase,omitempty"`

	// observedGeneration is the metadata.generation that this status describes.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Ready (the command succeeded), Progressing, Degraded, Stalled (present only while
	// it is True) and, once the At is DONE, Complete or Failed.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// scheduledTime is the scheduled time in UTC, in whole seconds. It does not change once the At is
	// RUNNING.
	//
	// +optional
	ScheduledTime *metav1.Time `json:"scheduledTime,omitempty"`

	// startTime is the time at which the At became RUNNING.
	//
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// completionTime is the time at which the command ended or, if a deadline passed, the time at which
	// the At became DONE.
	//
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// podName is the name of the Pod that runs the command.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	PodName string `json:"podName,omitempty"`

	// failed is the number of Pods that failed.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	Failed int32 `json:"failed,omitempty"`

	// exitCode is the exit code of the container in the last Pod that ended.
	//
	// +optional
	ExitCode *int32 `json:"exitCode,omitempty"`
}

// At runs a command once, at a given time.
//
// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=ats,singular=at,scope=Namespaced,shortName=cnat,categories=windlass
// +kubebuilder:printcolumn:name="Schedule",type=string,JSONPath=`.spec.schedule`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || self.metadata.name.size() <= 249",optionalOldSelf=true,fieldPath=".metadata",message="the name may have at most 249 characters, because the Pod is called <name>-pod"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || has(self.status)",fieldPath=".status",message="status must not be removed"
// +kubebuilder:validation:XValidation:rule="oldSelf.?status.?phase.orValue('PENDING') == 'PENDING' || self.spec.schedule == oldSelf.spec.schedule",fieldPath=".spec.schedule",message="schedule cannot be changed once the command has started; create another At"
// +kubebuilder:validation:XValidation:rule="oldSelf.?status.?phase.orValue('PENDING') == 'PENDING' || self.spec.command == oldSelf.spec.command",fieldPath=".spec.command",message="command cannot be changed once the command has started; create another At"
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
