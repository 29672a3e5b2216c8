package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
)

// ManagementState specifies what a Platform does with the child of a component.
//
// +kubebuilder:validation:Enum=Managed;Removed;Unmanaged
type ManagementState string

// Management states.
const (
	// Managed means that the child is created, and kept in the desired state.
	Managed ManagementState = "Managed"
	// Removed means that the child is deleted.
	Removed ManagementState = "Removed"
	// Unmanaged means that the child is released: the operator does not change it, and it stays when the
	// Platform is deleted.
	Unmanaged ManagementState = "Unmanaged"
)

// PlatformPhase is the phase of a Platform.
//
// +kubebuilder:validation:Enum=Pending;Deploying;Ready;Failed;Deleting
type PlatformPhase string

// Phases of a Platform.
const (
	// PlatformPending means that the namespace could not be created yet, or is being deleted.
	PlatformPending PlatformPhase = "Pending"
	// PlatformDeploying means that components are being started, changed or removed.
	PlatformDeploying PlatformPhase = "Deploying"
	// PlatformReady means that every Managed component is Ready, and every Removed component is deleted.
	PlatformReady PlatformPhase = "Ready"
	// PlatformFailed means that a user has to act. The condition Degraded says why.
	PlatformFailed PlatformPhase = "Failed"
	// PlatformDeleting means that the Platform is being deleted, and that its components are removed before.
	PlatformDeleting PlatformPhase = "Deleting"
)

// PlatformSpec is the desired state of a Platform: its components, and their namespace.
type PlatformSpec struct {
	// namespace is the name of the namespace of the components. The operator creates the namespace once
	// if it does not exist, and never deletes it. The name must not begin with kube-, and must not be the
	// name of a namespace of the operator. The field cannot be changed.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="namespace cannot be changed, because the data of the components would stay in the previous namespace; create another Platform"
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('kube-')",message="namespace must not begin with kube-, because these namespaces belong to Kubernetes"
	Namespace string `json:"namespace"`

	// components are the components of the Platform. The child of a component is called
	// <platform>-<component>. If a component is removed from the list, its child is deleted, unless the
	// component is Unmanaged.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:XValidation:rule="self.size() > 64 || [self.map(c, c.name)].all(names, self.all(c, !has(c.dependsOn) || c.dependsOn.all(d, d in names)))",message="dependsOn may only name components of this Platform"
	Components []PlatformComponent `json:"components,omitempty"`
}

// PlatformComponent is an App, a Database, an ExternalDatabase or an At.
//
// +kubebuilder:validation:XValidation:rule="[has(self.app), has(self.database), has(self.externalDatabase), has(self.at)].filter(there, there).size() == 1",message="a component must have exactly one of app, database, externalDatabase and at"
// +kubebuilder:validation:XValidation:rule="!has(self.dependsOn) || !(self.name in self.dependsOn)",message="a component cannot depend on itself"
// +kubebuilder:validation:XValidation:rule="!has(self.at) || !has(self.at.ttlSecondsAfterFinished)",message="at.ttlSecondsAfterFinished must not be set in a component, because the operator would create the deleted At again, and its command would run again"
type PlatformComponent struct {
	// name is the name of the component. It is unique in the Platform.
	//
	// +required
	Name ComponentName `json:"name"`

	// managementState is Managed, Removed or Unmanaged. Managed means that the child is created, and kept in the desired
	// state. Removed means that the child is deleted. Unmanaged means that the child is released: the operator does not
	// change the child, which stays when the Platform is deleted. If an Unmanaged component becomes Managed, the operator
	// brings its child to the desired state again. Defaults to Managed.
	//
	// +optional
	// +kubebuilder:default=Managed
	ManagementState ManagementState `json:"managementState,omitempty"`

	// dependsOn are the names of the components that must be Ready before this component starts. These components are
	// removed after this component.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	DependsOn []ComponentName `json:"dependsOn,omitempty"`

	// app is the spec of an App. It makes the component an App.
	//
	// +optional
	App *AppSpec `json:"app,omitempty"`

	// database is the spec of a Database. It makes the component a Database.
	//
	// +optional
	Database *DatabaseSpec `json:"database,omitempty"`

	// externalDatabase is the spec of an ExternalDatabase. It makes the component an ExternalDatabase.
	//
	// +optional
	ExternalDatabase *ExternalDatabaseSpec `json:"externalDatabase,omitempty"`

	// at is the spec of an At. It makes the component an At, which is Ready after its command has succeeded. The command
	// runs once for each different spec: if the spec changes after the command has started, the operator waits until the
	// command has ended, deletes the At, and creates it again. backoffLimit alone does not make the command run again.
	// Components that depend on this one, directly or through other components, are not changed until the command has
	// succeeded.
	//
	// +optional
	At *cnatv1.AtSpec `json:"at,omitempty"`
}

// ComponentName is the name of a component.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=61
// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
type ComponentName string

// PlatformStatus is the observed state of a Platform. The condition Ready is True if every Managed
// component is Ready, and every Removed component is deleted.
type PlatformStatus struct {
	ConditionedStatus `json:",inline"`

	// phase is Pending, Deploying, Ready, Failed or Deleting. Pending means that the namespace could not be created yet,
	// or is being deleted. Deploying means that components are being started, changed or removed. Ready means that every
	// Managed component is Ready, and every Removed component is deleted. Failed means that a user has to act. Deleting
	// means that the Platform is being deleted.
	//
	// +optional
	Phase PlatformPhase `json:"phase,omitempty"`

	// namespaceUID is the UID of the last namespace that existed with the name in spec.namespace. It is empty if the
	// namespace has never existed. If the namespace is deleted, the operator does not create it again, because its labels,
	// quotas, policies and role bindings, which isolated it, were deleted with it.
	//
	// +optional
	NamespaceUID *types.UID `json:"namespaceUID,omitempty"`

	// managedComponents is the number of Managed components.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	ManagedComponents int32 `json:"managedComponents"`

	// readyComponents is the number of Managed components that are Ready.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	ReadyComponents int32 `json:"readyComponents"`

	// components are the components of the spec, in the same order, followed by the components that were
	// removed from the spec and whose children still exist. The operator lists a component here before
	// it creates the child. An object belongs to the Platform only if its component is in the spec or in
	// this list.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	Components []PlatformComponentStatus `json:"components,omitempty"`
}

// Platform consists of components, which are Apps, Databases, ExternalDatabases and Ats. The operator
// starts them in the order of their dependencies.
//
// +genclient
// +genclient:nonNamespaced
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=platforms,singular=platform,scope=Cluster,shortName=plat,categories=windlass
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Available",type=integer,JSONPath=`.status.readyComponents`
// +kubebuilder:printcolumn:name="Managed",type=integer,JSONPath=`.status.managedComponents`
// +kubebuilder:printcolumn:name="Namespace",type=string,JSONPath=`.spec.namespace`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || (self.metadata.name.size() <= 61 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$'))",optionalOldSelf=true,fieldPath=".metadata",message="the name must be a valid beginning of the name of a Service: at most 61 characters, lower-case letters, digits and '-', beginning with a letter, and ending with a letter or a digit"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.components) || self.spec.components.all(c, self.metadata.name.size() + c.name.size() < (has(c.database) ? 52 : 63))",fieldPath=".spec.components",message="the name <platform>-<component> may have at most 63 characters, or at most 52 for a database"
type Platform struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec PlatformSpec `json:"spec"`
	// +optional
	Status PlatformStatus `json:"status,omitempty,omitzero"`
}

// StatusPhase returns status.phase.
func (p *Platform) StatusPhase() string { return string(p.Status.Phase) }

// StatusConditions returns a pointer to status.conditions, which the engine sets.
func (p *Platform) StatusConditions() *[]metav1.Condition { return &p.Status.Conditions }

// StatusObservedGeneration returns a pointer to status.observedGeneration, which the engine sets.
func (p *Platform) StatusObservedGeneration() *int64 { return &p.Status.ObservedGeneration }

// PlatformList is a list of Platforms.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type PlatformList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Platform `json:"items"`
}
