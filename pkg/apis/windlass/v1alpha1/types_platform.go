package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
)

// ManagementState is what a Platform does with a component.
//
// +kubebuilder:validation:Enum=Managed;Removed;Unmanaged
type ManagementState string

// States of management.
const (
	// Managed: the component's child is kept as it is written in the Platform.
	Managed ManagementState = "Managed"
	// Removed: the child is deleted.
	Removed ManagementState = "Removed"
	// Unmanaged: the child is let go. Nothing is written to it, and it stays when the
	// Platform is deleted.
	Unmanaged ManagementState = "Unmanaged"
)

// PlatformPhase is where a Platform stands.
//
// +kubebuilder:validation:Enum=Pending;Deploying;Ready;Failed;Deleting
type PlatformPhase string

// Phases of a Platform.
const (
	// PlatformPending: its namespace is not there yet, or is being deleted.
	PlatformPending PlatformPhase = "Pending"
	// PlatformDeploying: components are being started, changed or removed.
	PlatformDeploying PlatformPhase = "Deploying"
	// PlatformReady: every Managed component is Ready, and every Removed one is gone.
	PlatformReady PlatformPhase = "Ready"
	// PlatformFailed: a user must look at it; the condition Degraded says why.
	PlatformFailed PlatformPhase = "Failed"
	// PlatformDeleting: its components are being removed, and then it goes.
	PlatformDeleting PlatformPhase = "Deleting"
)

// PlatformSpec says which components there are, and where.
type PlatformSpec struct {
	// namespace is where the components are. It is made once if there is none, and never
	// deleted. It cannot be changed. It must be neither one of Kubernetes' own, kube-*, nor
	// that of the operator.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="namespace cannot be changed, since what is in the components would stay behind: make another Platform"
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('kube-')",message="namespace must not begin with kube-: these are the namespaces of Kubernetes itself"
	Namespace string `json:"namespace"`

	// components are what the Platform is made of. The child of each is called
	// <platform>-<component>. One that is taken off the list is removed, unless it is
	// Unmanaged.
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
// +kubebuilder:validation:XValidation:rule="[has(self.app), has(self.database), has(self.externalDatabase), has(self.at)].filter(there, there).size() == 1",message="a component is exactly one of app, database, externalDatabase and at"
// +kubebuilder:validation:XValidation:rule="!has(self.dependsOn) || !(self.name in self.dependsOn)",message="a component cannot depend on itself"
// +kubebuilder:validation:XValidation:rule="!has(self.at) || !has(self.at.ttlSecondsAfterFinished)",message="at.ttlSecondsAfterFinished may not be set in a component, since an At that is deleted would be made again, and run again"
type PlatformComponent struct {
	// name is that of the component in this Platform.
	//
	// +required
	Name ComponentName `json:"name"`

	// managementState is Managed (the child is kept as it is written here), Removed
	// (it is deleted) or Unmanaged (it is let go: nothing is written to it, it stays
	// when the Platform is deleted, and Managed takes it back).
	//
	// +optional
	// +kubebuilder:default=Managed
	ManagementState ManagementState `json:"managementState,omitempty"`

	// dependsOn are the components that must be Ready before this one is started. They
	// are removed after it.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	DependsOn []ComponentName `json:"dependsOn,omitempty"`

	// app makes the component an App.
	//
	// +optional
	App *AppSpec `json:"app,omitempty"`

	// database makes the component a Database.
	//
	// +optional
	Database *DatabaseSpec `json:"database,omitempty"`

	// externalDatabase makes the component an ExternalDatabase.
	//
	// +optional
	ExternalDatabase *ExternalDatabaseSpec `json:"externalDatabase,omitempty"`

	// at makes the component an At. It is Ready once its command has ended well.
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

// PlatformStatus is what was last seen of the Platform.
type PlatformStatus struct {
	// observedGeneration is the metadata.generation that this status speaks of.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// phase is Pending, Deploying, Ready, Failed or Deleting.
	//
	// +optional
	Phase PlatformPhase `json:"phase,omitempty"`

	// conditions are Ready (every Managed component is Ready, and every Removed one is
	// gone), Progressing, Degraded, and Stalled (only while True).
	//
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// namespaceUID is the UID of the namespace when it was last there, and empty as long as
	// it was never there. A namespace that was there and is gone is not made again: what
	// isolated it, such as labels, quotas, policies and role bindings, went with it.
	//
	// +optional
	NamespaceUID *types.UID `json:"namespaceUID,omitempty"`

	// managedComponents is how many components are Managed.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	ManagedComponents int32 `json:"managedComponents"`

	// readyComponents is how many of those are Ready.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	ReadyComponents int32 `json:"readyComponents"`

	// components are those of the spec, in its order, and after them those that are
	// not in the spec any more, until they are gone. The child of a component is made only
	// once the component is listed here, and what is listed neither here nor in the spec is
	// none of the Platform's.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	Components []PlatformComponentStatus `json:"components,omitempty"`
}

// PlatformComponentPhase is where a component stands.
type PlatformComponentPhase string

// Phases that a component has beside those of its child.
const (
	// ComponentWaiting: it is not started until others are Ready, or not removed until
	// others are gone.
	ComponentWaiting PlatformComponentPhase = "Waiting"
	// ComponentRemoving: its child is being deleted.
	ComponentRemoving PlatformComponentPhase = "Removing"
	// ComponentRemoved: its child is gone.
	ComponentRemoved PlatformComponentPhase = "Removed"
	// ComponentAbsent: it is Unmanaged, and there is no child.
	ComponentAbsent PlatformComponentPhase = "Absent"
)

// PlatformComponentStatus is what was last seen of a component.
type PlatformComponentStatus struct {
	// name is that of the component.
	Name ComponentName `json:"name"`

	// kind is App, Database, ExternalDatabase or At.
	Kind string `json:"kind"`

	// managementState is that of the spec; Managed for one that is Unmanaged and not let
	// go yet; Removed for one that is not in the spec any more.
	ManagementState ManagementState `json:"managementState"`

	// phase is Waiting, Removing, Removed, Absent or that of the child, which begins
	// with Pending.
	//
	// +optional
	Phase PlatformComponentPhase `json:"phase,omitempty"`

	// reason is that of the child's condition Ready or, where the component waits, of
	// that.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`

	// message is that of the child's condition Ready, or says for what the component
	// waits.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=32768
	Message string `json:"message,omitempty"`
}

// Platform is made of components, each an App, a Database, an ExternalDatabase or an
// At, which start in the order in which they depend on each other.
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
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || (self.metadata.name.size() <= 61 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$'))",optionalOldSelf=true,message="the name must be one with which that of a Service may begin: 61 characters at most, lower-case letters, digits and '-', beginning with a letter"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.components) || self.spec.components.all(c, self.metadata.name.size() + c.name.size() < (has(c.database) ? 52 : 63))",message="a component is called <platform>-<component>, which may have 63 characters at most, and 52 for a database"
type Platform struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec PlatformSpec `json:"spec"`
	// +optional
	Status PlatformStatus `json:"status,omitempty,omitzero"`
}

// StatusConditions points at the conditions, for the engine to set.
func (p *Platform) StatusConditions() *[]metav1.Condition { return &p.Status.Conditions }

// StatusObservedGeneration points at the observed generation, for the engine to set.
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
