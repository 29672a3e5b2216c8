package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AtPhase is the phase of an At. It only moves forward.
//
// +kubebuilder:validation:Enum=Pending;Running;Done
type AtPhase string

// Phases of an At.
const (
	// AtPending means that the command waits for its scheduled time.
	AtPending AtPhase = "Pending"
	// AtRunning means that the scheduled time has come: the Pod exists, or is about to be created.
	AtRunning AtPhase = "Running"
	// AtDone means that the command has ended, or will not be started.
	AtDone AtPhase = "Done"
)

// Conditions of an At in addition to Ready, Progressing, Degraded and Stalled. A Job has the same
// conditions, so that `kubectl wait --for=condition=Complete` works as for a Job.
const (
	// AtComplete is True if the command ended with exit code 0.
	AtComplete = "Complete"
	// AtFailed is True if the command failed and is not retried, or if it was not started.
	AtFailed = "Failed"
)

// AtSpec is the desired state of an At: the command, and the time at which it runs. After the command has started, the
// API server rejects changes of all fields except ttlSecondsAfterFinished and, while the At is Running, backoffLimit.
type AtSpec struct {
	// schedule is the time at which the command runs, in RFC 3339 with any offset: 2026-02-10T20:30:00Z or
	// 2026-02-10T21:30:00+01:00. If the time is in the past, the command runs at once. A change takes effect at once while
	// the At is Pending, and is rejected afterwards.
	//
	// +required
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:XValidation:rule="self.matches('^(19[7-9][0-9]|[2-8][0-9]{3})-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$') && self.matches('^([0-9]{4}-((0[13578]|1[02])-|(0[469]|11)-(0[1-9]|[12][0-9]|30)T|02-(0[1-9]|1[0-9]|2[0-8])T)|([0-9]{2}(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)-02-29T)')",message="schedule must be a time in RFC 3339, such as 2026-02-10T20:30:00Z, in the years 1970 to 8999"
	Schedule string `json:"schedule"`

	// command is the entry point of the container. It does not run in a shell. For a command line of
	// a shell, use ["/bin/sh", "-c", "echo Hello"].
	//
	// +required
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MaxLength=131072
	// +listType=atomic
	Command []string `json:"command"`

	// args are the arguments of the entry point.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MaxLength=131072
	// +listType=atomic
	Args []string `json:"args,omitempty"`

	// image is the container image of the command. Defaults to the image in the operator's flag
	// --at-image, which is a small busybox image unless the flag is set.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Image string `json:"image,omitempty"`

	// env are environment variables of the container.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=1024
	// +listType=map
	// +listMapKey=name
	Env []corev1.EnvVar `json:"env,omitempty"`

	// envFrom are ConfigMaps and Secrets. Each of their keys becomes an environment variable of the
	// container.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=1024
	// +listType=atomic
	EnvFrom []corev1.EnvFromSource `json:"envFrom,omitempty"`

	// resources are the resource requests and limits of the container.
	//
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitempty,omitzero"`

	// imagePullSecrets are references to Secrets in the same namespace that are used to pull the
	// image.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=name
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`

	// serviceAccountName is the name of the ServiceAccount of the Pod. If it is unset, the Pod uses
	// the default ServiceAccount of the namespace, but does not mount its token. To mount that token,
	// set the field to default.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ServiceAccountName string `json:"serviceAccountName,omitempty"`

	// restricted specifies whether the Pod complies with the Pod Security Standard "restricted". If it
	// is true, the command runs as user 65534, which is not root, without capabilities and without
	// privilege escalation, unless podTemplate says otherwise. Defaults to false: the operator sets no security context.
	//
	// +optional
	Restricted *bool `json:"restricted,omitempty"`

	// podTemplate sets the fields of the Pod that the At has no field for, for example tolerations, volumes, and more
	// containers. The operator merges it into the Pod that it generates. The container of the command is named command.
	// Once the command has started, the API server does not notice a change that replaces fields of spec by as many other
	// fields. Such a change takes effect with the next retry.
	//
	// +optional
	PodTemplate *PodTemplate `json:"podTemplate,omitempty"`

	// startingDeadlineSeconds is the deadline for the start of the command, in seconds after the
	// scheduled time. If the deadline has passed, the command is not started, and the At is Done with
	// the condition Failed and reason DeadlineExceeded. If the field is unset, there is no deadline. It
	// has the same meaning as in a CronJob.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	StartingDeadlineSeconds *int64 `json:"startingDeadlineSeconds,omitempty"`

	// activeDeadlineSeconds is the deadline for the end of the command, including retries, in seconds after
	// status.startTime. When the deadline has passed, the kubelet ends the command, and the Pod and its log stay. The
	// operator deletes the Pod if its command has never started, or if the command still runs 30 s after the end of the
	// grace period. The At is Done with the condition Failed and reason DeadlineExceeded. If the field is unset, there is
	// no deadline.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`

	// backoffLimit is the number of retries of a failed command. A command whose Pod is deleted, evicted
	// or lost with its node has failed. The operator waits 10 s before the first retry, then 20 s, 40 s
	// and so on, up to 6 min, as for a Job. If the Pod was deleted, the retry starts as soon as the Pod
	// is gone. A change of this field takes effect at once while the At is Pending or Running, and is
	// rejected once the At is Done. Defaults to 0: unlike a Job, an At does not run a command twice unless
	// this field allows it.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	BackoffLimit *int32 `json:"backoffLimit,omitempty"`

	// ttlSecondsAfterFinished is the time after which the At and its Pod are deleted, in seconds after
	// status.completionTime. If it is unset, they are not deleted. It can always be changed. It has the
	// same meaning as in a Job. If the At is applied again after its deletion, for example by a GitOps
	// tool, its command runs again, unless startingDeadlineSeconds is less than this field.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`

	// suspend specifies whether the At is suspended. While it is true, a Pending At stays Pending, even after the
	// scheduled time. It cannot be changed after the At has become Running. Defaults to false. It has the same meaning as
	// in a CronJob.
	//
	// +optional
	Suspend *bool `json:"suspend,omitempty"`
}

// AtStatus is the observed state of an At.
//
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.phase) || (has(self.phase) && (self.phase == oldSelf.phase || oldSelf.phase == 'Pending' || (oldSelf.phase == 'Running' && self.phase == 'Done')))",message="phase only goes forward: Pending, Running, Done; to run the command again, create another At"
type AtStatus struct {
	// observedGeneration is the metadata.generation that this status describes.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// phase is Pending, Running or Done. Pending means that the command waits for its scheduled time. Running means that
	// the Pod exists, or is about to be created. Done means that the command has ended, or will not be started.
	//
	// +optional
	Phase AtPhase `json:"phase,omitempty"`

	// conditions are Ready (the command succeeded), Progressing, Degraded, Stalled (present only while
	// it is True) and, once the At is Done, Complete or Failed.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// scheduledTime is the scheduled time in UTC, in whole seconds. It does not change once the At is
	// Running.
	//
	// +optional
	ScheduledTime *metav1.Time `json:"scheduledTime,omitempty"`

	// startTime is the time at which the At became Running.
	//
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// completionTime is the time at which the command ended or, if a deadline passed, the time at which
	// the At became Done.
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
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=ats,singular=at,scope=Namespaced,shortName=cnat,categories=windlass
// +kubebuilder:printcolumn:name="Schedule",type=string,JSONPath=`.spec.schedule`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Exit",type=integer,JSONPath=`.status.exitCode`
// +kubebuilder:printcolumn:name="Pod",type=string,priority=1,JSONPath=`.status.podName`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || self.metadata.name.size() <= 249",optionalOldSelf=true,fieldPath=".metadata",message="the name may have at most 249 characters, because the Pod is called <name>-pod"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || has(self.status)",fieldPath=".status",message="status must not be removed"
// +kubebuilder:validation:XValidation:rule="oldSelf.?status.?phase.orValue('Pending') == 'Pending' || self.spec.schedule == oldSelf.spec.schedule",fieldPath=".spec.schedule",message="schedule cannot be changed once the command has started; create another At"
// +kubebuilder:validation:XValidation:rule="oldSelf.?status.?phase.orValue('Pending') == 'Pending' || self.spec.command == oldSelf.spec.command",fieldPath=".spec.command",message="command cannot be changed once the command has started; create another At"
// +kubebuilder:validation:XValidation:rule="oldSelf.?status.?phase.orValue('Pending') == 'Pending' || (has(self.spec.args) && self.spec.args.size() > 0 ? has(oldSelf.spec.args) && oldSelf.spec.args.size() > 0 && self.spec.args == oldSelf.spec.args : !(has(oldSelf.spec.args) && oldSelf.spec.args.size() > 0))",fieldPath=".spec.args",message="args cannot be changed once the command has started; create another At"
// +kubebuilder:validation:XValidation:rule="oldSelf.?status.?phase.orValue('Pending') == 'Pending' || (has(self.spec.image) && self.spec.image != \"\" ? has(oldSelf.spec.image) && self.spec.image == oldSelf.spec.image : !(has(oldSelf.spec.image) && oldSelf.spec.image != \"\"))",fieldPath=".spec.image",message="image cannot be changed once the command has started; create another At"
// +kubebuilder:validation:XValidation:rule="oldSelf.?status.?phase.orValue('Pending') == 'Pending' || (has(self.spec.env) && self.spec.env.size() > 0 ? has(oldSelf.spec.env) && oldSelf.spec.env.size() > 0 && self.spec.env.map(e, e.name) == oldSelf.spec.env.map(e, e.name) && self.spec.env.map(e, has(e.value) ? e.value : \"\") == oldSelf.spec.env.map(e, has(e.value) ? e.value : \"\") && self.spec.env.map(e, e.?valueFrom) == oldSelf.spec.env.map(e, e.?valueFrom) : !(has(oldSelf.spec.env) && oldSelf.spec.env.size() > 0))",fieldPath=".spec.env",message="env cannot be changed once the command has started; create another At"
// +kubebuilder:validation:XValidation:rule="oldSelf.?status.?phase.orValue('Pending') == 'Pending' || (has(self.spec.envFrom) && self.spec.envFrom.size() > 0 ? has(oldSelf.spec.envFrom) && oldSelf.spec.envFrom.size() > 0 && self.spec.envFrom == oldSelf.spec.envFrom : !(has(oldSelf.spec.envFrom) && oldSelf.spec.envFrom.size() > 0))",fieldPath=".spec.envFrom",message="envFrom cannot be changed once the command has started; create another At"
// +kubebuilder:validation:XValidation:rule="oldSelf.?status.?phase.orValue('Pending') == 'Pending' || (has(self.spec.resources) && has(self.spec.resources.requests) && self.spec.resources.requests.size() > 0 ? has(oldSelf.spec.resources) && has(oldSelf.spec.resources.requests) && oldSelf.spec.resources.requests.size() > 0 && self.spec.resources.requests.size() == oldSelf.spec.resources.requests.size() && self.spec.resources.requests.all(r, r in oldSelf.spec.resources.requests && (self.spec.resources.requests[r] == oldSelf.spec.resources.requests[r] || isQuantity(string(self.spec.resources.requests[r])) && isQuantity(string(oldSelf.spec.resources.requests[r])) && quantity(string(self.spec.resources.requests[r])).compareTo(quantity(string(oldSelf.spec.resources.requests[r]))) == 0)) : !(has(oldSelf.spec.resources) && has(oldSelf.spec.resources.requests) && oldSelf.spec.resources.requests.size() > 0))",fieldPath=".spec.resources",message="resources cannot be changed once the command has started; create another At"
// +kubebuilder:validation:XValidation:rule="oldSelf.?status.?phase.orValue('Pending') == 'Pending' || (has(self.spec.resources) && has(self.spec.resources.limits) && self.spec.resources.limits.size() > 0 ? has(oldSelf.spec.resources) && has(oldSelf.spec.resources.limits) && oldSelf.spec.resources.limits.size() > 0 && self.spec.resources.limits.size() == oldSelf.spec.resources.limits.size() && self.spec.resources.limits.all(r, r in oldSelf.spec.resources.limits && (self.spec.resources.limits[r] == oldSelf.spec.resources.limits[r] || isQuantity(string(self.spec.resources.limits[r])) && isQuantity(string(oldSelf.spec.resources.limits[r])) && quantity(string(self.spec.resources.limits[r])).compareTo(quantity(string(oldSelf.spec.resources.limits[r]))) == 0)) : !(has(oldSelf.spec.resources) && has(oldSelf.spec.resources.limits) && oldSelf.spec.resources.limits.size() > 0))",fieldPath=".spec.resources",message="resources cannot be changed once the command has started; create another At"
// +kubebuilder:validation:XValidation:rule="oldSelf.?status.?phase.orValue('Pending') == 'Pending' || (has(self.spec.imagePullSecrets) && self.spec.imagePullSecrets.size() > 0 ? has(oldSelf.spec.imagePullSecrets) && oldSelf.spec.imagePullSecrets.size() > 0 && self.spec.imagePullSecrets == oldSelf.spec.imagePullSecrets : !(has(oldSelf.spec.imagePullSecrets) && oldSelf.spec.imagePullSecrets.size() > 0))",fieldPath=".spec.imagePullSecrets",message="imagePullSecrets cannot be changed once the command has started; create another At"
// +kubebuilder:validation:XValidation:rule="oldSelf.?status.?phase.orValue('Pending') == 'Pending' || ((self.spec.?podTemplate.?metadata.?labels.hasValue() && self.spec.podTemplate.metadata.labels.size() > 0) ? (oldSelf.spec.?podTemplate.?metadata.?labels.hasValue() && oldSelf.spec.podTemplate.metadata.labels.size() > 0) && self.spec.podTemplate.metadata.labels == oldSelf.spec.podTemplate.metadata.labels : !(oldSelf.spec.?podTemplate.?metadata.?labels.hasValue() && oldSelf.spec.podTemplate.metadata.labels.size() > 0))",fieldPath=".spec.podTemplate",message="podTemplate cannot be changed once the command has started; create another At"
// +kubebuilder:validation:XValidation:rule="oldSelf.?status.?phase.orValue('Pending') == 'Pending' || ((self.spec.?podTemplate.?metadata.?annotations.hasValue() && self.spec.podTemplate.metadata.annotations.size() > 0) ? (oldSelf.spec.?podTemplate.?metadata.?annotations.hasValue() && oldSelf.spec.podTemplate.metadata.annotations.size() > 0) && self.spec.podTemplate.metadata.annotations == oldSelf.spec.podTemplate.metadata.annotations : !(oldSelf.spec.?podTemplate.?metadata.?annotations.hasValue() && oldSelf.spec.podTemplate.metadata.annotations.size() > 0))",fieldPath=".spec.podTemplate",message="podTemplate cannot be changed once the command has started; create another At"
// +kubebuilder:validation:XValidation:rule="oldSelf.?status.?phase.orValue('Pending') == 'Pending' || (self.spec.?podTemplate.?spec.hasValue() ? oldSelf.spec.?podTemplate.?spec.hasValue() && self.spec.podTemplate.spec == oldSelf.spec.podTemplate.spec : !oldSelf.spec.?podTemplate.?spec.hasValue())",fieldPath=".spec.podTemplate",message="podTemplate cannot be changed once the command has started; create another At"
// +kubebuilder:validation:XValidation:rule="oldSelf.?status.?phase.orValue('Pending') == 'Pending' || (has(self.spec.serviceAccountName) && self.spec.serviceAccountName != \"\" ? has(oldSelf.spec.serviceAccountName) && self.spec.serviceAccountName == oldSelf.spec.serviceAccountName : !(has(oldSelf.spec.serviceAccountName) && oldSelf.spec.serviceAccountName != \"\"))",fieldPath=".spec.serviceAccountName",message="serviceAccountName cannot be changed once the command has started; create another At"
// +kubebuilder:validation:XValidation:rule="oldSelf.?status.?phase.orValue('Pending') == 'Pending' || (has(self.spec.restricted) && self.spec.restricted) == (has(oldSelf.spec.restricted) && oldSelf.spec.restricted)",fieldPath=".spec.restricted",message="restricted cannot be changed once the command has started; create another At"
// +kubebuilder:validation:XValidation:rule="oldSelf.?status.?phase.orValue('Pending') == 'Pending' || self.spec.?startingDeadlineSeconds == oldSelf.spec.?startingDeadlineSeconds",fieldPath=".spec.startingDeadlineSeconds",message="startingDeadlineSeconds cannot be changed once the command has started; create another At"
// +kubebuilder:validation:XValidation:rule="oldSelf.?status.?phase.orValue('Pending') == 'Pending' || self.spec.?activeDeadlineSeconds == oldSelf.spec.?activeDeadlineSeconds",fieldPath=".spec.activeDeadlineSeconds",message="activeDeadlineSeconds cannot be changed once the command has started; create another At"
// +kubebuilder:validation:XValidation:rule="oldSelf.?status.?phase.orValue('Pending') == 'Pending' || (has(self.spec.suspend) && self.spec.suspend) == (has(oldSelf.spec.suspend) && oldSelf.spec.suspend)",fieldPath=".spec.suspend",message="suspend cannot be changed once the command has started; create another At"
// +kubebuilder:validation:XValidation:rule="oldSelf.?status.?phase.orValue('Pending') != 'Done' || self.spec.?backoffLimit == oldSelf.spec.?backoffLimit",fieldPath=".spec.backoffLimit",message="backoffLimit cannot be changed once the At is Done; create another At"
type At struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec AtSpec `json:"spec"`
	// +optional
	Status AtStatus `json:"status,omitempty,omitzero"`
}

// StatusPhase returns status.phase.
func (a *At) StatusPhase() string { return string(a.Status.Phase) }

// StatusConditions returns a pointer to status.conditions, which the engine sets.
func (a *At) StatusConditions() *[]metav1.Condition { return &a.Status.Conditions }

// StatusObservedGeneration returns a pointer to status.observedGeneration, which the engine sets.
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
