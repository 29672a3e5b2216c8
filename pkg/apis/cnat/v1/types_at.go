package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AtPhase is where an At stands. It only ever goes forward.
//
// +kubebuilder:validation:Enum=Pending;Running;Done
type AtPhase string

// Phases of an At.
const (
	// AtPending: the command waits for its time.
	AtPending AtPhase = "Pending"
	// AtRunning: the time has come, and the Pod is made or about to be.
	AtRunning AtPhase = "Running"
	// AtDone: the command has ended, or will never be started.
	AtDone AtPhase = "Done"
)

// Conditions that an At has beside Ready, Progressing, Degraded and Stalled.
// They are those of a Job, so that `kubectl wait --for=condition=Complete`
// does what a user of Jobs expects.
const (
	// AtComplete is True when the command ended with exit code 0.
	AtComplete = "Complete"
	// AtFailed is True when the command failed for good, or was never started.
	AtFailed = "Failed"
)

// AtSpec says what to run and when. Once the At is Running, a change of the
// command does not run it again.
type AtSpec struct {
	// schedule is the instant at which the command shall run, in RFC 3339 with
	// any offset: 2026-02-10T20:30:00Z or 2026-02-10T21:30:00+01:00. An instant
	// in the past means now. A change takes effect at once as long as the At is
	// Pending.
	//
	// +required
	// +kubebuilder:validation:Format=date-time
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^(19[7-9][0-9]|[2-8][0-9]{3})-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`
	Schedule string `json:"schedule"`

	// command is the entry point of the container. It is not run in a shell:
	// for a shell line write ["/bin/sh", "-c", "echo Hello"].
	//
	// +required
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MaxLength=131072
	// +listType=atomic
	Command []string `json:"command"`

	// args are the arguments of the command.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MaxLength=131072
	// +listType=atomic
	Args []string `json:"args,omitempty"`

	// image is the container image that holds the command. Defaults to the one
	// that the controller's --at-image flag names, which is a small busybox.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Image string `json:"image,omitempty"`

	// env are environment variables for the command.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=1024
	// +listType=map
	// +listMapKey=name
	Env []corev1.EnvVar `json:"env,omitempty"`

	// envFrom are ConfigMaps and Secrets all of whose keys become environment
	// variables.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=1024
	// +listType=atomic
	EnvFrom []corev1.EnvFromSource `json:"envFrom,omitempty"`

	// resources are the container's requests and limits.
	//
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitempty,omitzero"`

	// imagePullSecrets name Secrets in the same namespace with which the image
	// is pulled.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=name
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`

	// serviceAccountName is the account the Pod runs as. Defaults to the
	// namespace's default account, whose token is then not mounted; a command that
	// needs it names the account: default.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ServiceAccountName string `json:"serviceAccountName,omitempty"`

	// restricted runs the command as namespaces demand that enforce the Pod Security
	// standard "restricted": as user 65534, not as root, without capabilities and
	// without a way to get any. Defaults to false: the image decides.
	//
	// +optional
	Restricted *bool `json:"restricted,omitempty"`

	// startingDeadlineSeconds is how late the command may start, in seconds
	// after the schedule. Past it the command is not started: the At is Done and
	// Failed with reason DeadlineExceeded. Without it there is no limit. The same
	// field of a CronJob means the same.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	StartingDeadlineSeconds *int64 `json:"startingDeadlineSeconds,omitempty"`

	// activeDeadlineSeconds is how long the command may take, retries included,
	// in seconds after startTime. Past it the Pod is deleted, and the At is Done
	// and Failed with reason DeadlineExceeded. Without it there is no limit. The
	// same field of a Job means the same.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`

	// backoffLimit is how many times a failed command is tried again, after 10 s,
	// 20 s, 40 s and so on up to 6 min, as for a Job. Defaults to 0: unlike a
	// Job, an At does not run a command twice unless told so.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	BackoffLimit *int32 `json:"backoffLimit,omitempty"`

	// ttlSecondsAfterFinished is when the At, with its Pod, is deleted, in
	// seconds after completionTime. Without it the At stays. The same field of a
	// Job means the same.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`

	// suspend holds a Pending At back until it is taken away again. It has no
	// effect on a command that has started. The same field of a CronJob means
	// the same.
	//
	// +optional
	Suspend *bool `json:"suspend,omitempty"`
}

// AtStatus is what was last seen of the command.
//
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.phase) || (has(self.phase) && (self.phase == oldSelf.phase || oldSelf.phase == 'Pending' || (oldSelf.phase == 'Running' && self.phase == 'Done')))",message="phase only goes forward: Pending, Running, Done; to run the command again, delete the At and create it anew"
type AtStatus struct {
	// observedGeneration is the metadata.generation that this status speaks of.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// phase is Pending, Running or Done.
	//
	// +optional
	Phase AtPhase `json:"phase,omitempty"`

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
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=ats,singular=at,scope=Namespaced,shortName=cnat,categories=windlass
// +kubebuilder:printcolumn:name="Schedule",type=string,JSONPath=`.spec.schedule`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Exit",type=integer,JSONPath=`.status.exitCode`
// +kubebuilder:printcolumn:name="Pod",type=string,priority=1,JSONPath=`.status.podName`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || self.metadata.name.size() <= 249",optionalOldSelf=true,message="the name may have 249 characters at most, since its Pod is called <name>-pod"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || has(self.status)",message="status may not be removed"
type At struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec AtSpec `json:"spec"`
	// +optional
	Status AtStatus `json:"status,omitempty,omitzero"`
}

// StatusConditions points at the conditions, for the engine to set.
func (a *At) StatusConditions() *[]metav1.Condition { return &a.Status.Conditions }

// StatusObservedGeneration points at the observed generation, for the engine
// to set.
func (a *At) StatusObservedGeneration() *int64 { return &a.Status.ObservedGeneration }

// AtList is a list of Ats.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type AtList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []At `json:"items"`
}
