package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DatabasePhase is where a Database stands.
//
// +kubebuilder:validation:Enum=Pending;Deploying;Ready;Failed
type DatabasePhase string

// Phases of a Database.
const (
	// DatabasePending: something that the Database needs is not there yet.
	DatabasePending DatabasePhase = "Pending"
	// DatabaseDeploying: PostgreSQL is being started, for the first time or anew.
	DatabaseDeploying DatabasePhase = "Deploying"
	// DatabaseReady: PostgreSQL takes connections with what the Secret says.
	DatabaseReady DatabasePhase = "Ready"
	// DatabaseFailed: a user must look at it; the condition Ready says why.
	DatabaseFailed DatabasePhase = "Failed"
)

// DeletionPolicy is what becomes of data when the object that keeps it is deleted.
//
// +kubebuilder:validation:Enum=Retain;Delete
type DeletionPolicy string

// Deletion policies.
const (
	// DeletionRetain leaves the data.
	DeletionRetain DeletionPolicy = "Retain"
	// DeletionDelete deletes the data.
	DeletionDelete DeletionPolicy = "Delete"
)

// DatabaseSpec says which PostgreSQL to run, and on what.
type DatabaseSpec struct {
	// version is PostgreSQL's major version. It cannot be changed: PostgreSQL does not
	// read the data of another major version.
	//
	// +required
	// +kubebuilder:validation:Enum="14";"15";"16";"17";"18"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="version cannot be changed, since PostgreSQL does not read the data of another major version: make another Database of the new version, and copy the data with pg_dump and psql"
	Version string `json:"version"`

	// image is the container image, to run a minor version of your choice or from
	// another registry. It must be of the major version, have a shell and PostgreSQL's
	// programs in PATH, and know a user 999, as Docker's official Debian images do.
	// Defaults to postgres:<version>.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^\S*$`
	Image string `json:"image,omitempty"`

	// storage is the volume that holds the data.
	//
	// +required
	Storage DatabaseStorage `json:"storage"`

	// databaseName is the database that the owner finds there. Another name makes
	// another database beside the first, which stays as it is.
	//
	// +optional
	// +kubebuilder:default=app
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="bytes(self).size() <= 63 && !self.matches('[[:cntrl:]]') && !(self in ['postgres', 'template0', 'template1'])",message="databaseName may have 63 bytes at most, no control characters, and not be postgres, template0 or template1"
	DatabaseName string `json:"databaseName,omitempty"`

	// owner is the role that owns the database and connects to it. Another name makes
	// another role, to which all goes over that former owners own in the database;
	// they can no longer log in.
	//
	// +optional
	// +kubebuilder:default=app
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="bytes(self).size() <= 63 && !self.matches('[[:cntrl:]]') && !self.startsWith('pg_') && !(self in ['postgres', 'public', 'none'])",message="owner may have 63 bytes at most, no control characters, not begin with pg_, and not be postgres, public or none"
	Owner string `json:"owner,omitempty"`

	// ownerAttributes are what the owner may do beyond its own database. CreateDB and
	// CreateRole together let ExternalDatabases be kept on this server, with this one's
	// Secret. On versions 14 and 15 a role with CreateRole can give itself every right
	// but a superuser's, and run programs in the container. A change restarts
	// PostgreSQL.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=2
	OwnerAttributes []OwnerAttribute `json:"ownerAttributes,omitempty"`

	// parameters are settings of the server (https://www.postgresql.org/docs/current/runtime-config.html),
	// with names in lower case. A change restarts PostgreSQL.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=128
	// +kubebuilder:validation:XValidation:rule="self.all(name, name.size() <= 63 && name.matches('^[a-z][a-z0-9_]*([.][a-z][a-z0-9_]*)*$'))",message="the name of a parameter has lower-case letters, digits, '_' and '.', and begins with a letter"
	// +kubebuilder:validation:XValidation:rule="!self.exists(name, name in ['config_file', 'data_directory', 'external_pid_file', 'hba_file', 'ident_file', 'listen_addresses', 'port', 'unix_socket_directories'])",message="config_file, data_directory, external_pid_file, hba_file, ident_file, listen_addresses, port and unix_socket_directories are not yours to set: the operator does"
	Parameters map[string]ParameterValue `json:"parameters,omitempty"`

	// resources are the requests and limits of the container. A change restarts
	// PostgreSQL.
	//
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitempty,omitzero"`

	// deletionPolicy is what becomes of the volume when the Database is deleted:
	// Retain leaves it, for a Database that is later made under the same name; Delete
	// deletes it. What it says at the last moment counts.
	//
	// +optional
	// +kubebuilder:default=Retain
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// OwnerAttribute is an attribute of a role
// (https://www.postgresql.org/docs/current/role-attributes.html).
//
// +kubebuilder:validation:Enum=CreateDB;CreateRole
type OwnerAttribute string

// Attributes of a role.
const (
	// OwnerCreateDB lets the owner make databases.
	OwnerCreateDB OwnerAttribute = "CreateDB"
	// OwnerCreateRole lets the owner make roles.
	OwnerCreateRole OwnerAttribute = "CreateRole"
)

// ParameterValue is the value of one of PostgreSQL's settings, as the command line
// takes it.
//
// +kubebuilder:validation:MaxLength=4096
// +kubebuilder:validation:Pattern=`^[^\x00-\x1f\x7f]*$`
type ParameterValue string

// DatabaseStorage is a volume.
//
// +kubebuilder:validation:XValidation:rule="has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",message="storage.storageClassName cannot be changed, since a volume stays in its class: make another Database of that class, and copy the data with pg_dump and psql"
type DatabaseStorage struct {
	// size is how much the volume holds, at least. It may grow if the class allows
	// that, and never shrinks.
	//
	// +required
	// +kubebuilder:validation:XValidation:rule="string(self).matches('^[+]?[0-9.]*[1-9]')",message="storage.size must be above 0"
	Size resource.Quantity `json:"size"`

	// storageClassName is the StorageClass of the volume. Defaults to the cluster's.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	StorageClassName *string `json:"storageClassName,omitempty"`
}

// DatabaseStatus is what was last seen of the Database.
type DatabaseStatus struct {
	// observedGeneration is the metadata.generation that this status speaks of.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// phase is Pending, Deploying, Ready or Failed.
	//
	// +optional
	Phase DatabasePhase `json:"phase,omitempty"`

	// conditions are Ready (PostgreSQL takes connections with what the Secret says),
	// Progressing, Degraded, and Stalled (only while True).
	//
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// binding names the Secret to connect with, as the Service Binding
	// specification has it (https://servicebinding.io).
	//
	// +optional
	Binding *SecretBinding `json:"binding,omitempty"`

	// storage is the size that the volume has. spec.storage.size may be set back to it
	// while the volume has not grown, or cannot.
	//
	// +optional
	Storage *resource.Quantity `json:"storage,omitempty"`
}

// SecretBinding names a Secret in the same namespace.
type SecretBinding struct {
	// name is the Secret's.
	//
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// Database is a PostgreSQL server with one database, and the Secret to connect with.
//
// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=databases,singular=database,scope=Namespaced,shortName=db,categories=windlass
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.version`
// +kubebuilder:printcolumn:name="Storage",type=string,JSONPath=`.status.storage`
// +kubebuilder:printcolumn:name="Secret",type=string,JSONPath=`.status.binding.name`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || (self.metadata.name.size() <= 52 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$'))",optionalOldSelf=true,message="the name must be one of a Service and of a StatefulSet: 52 characters at most, lower-case letters, digits and '-', beginning with a letter"
// +kubebuilder:validation:XValidation:rule="string(self.spec.storage.size) == string(oldSelf.spec.storage.size) || [self.spec.storage.size, oldSelf.spec.storage.size].exists(size, !string(size).matches('^[+-]?[0-9.]{1,64}([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?$')) || quantity(string(self.spec.storage.size)).compareTo(quantity(string(oldSelf.spec.storage.size))) >= 0 || (has(oldSelf.status) && has(oldSelf.status.storage) && quantity(string(self.spec.storage.size)).compareTo(quantity(string(oldSelf.status.storage))) >= 0)",message="storage.size cannot shrink, since a volume does not: make another Database with less storage, and copy the data with pg_dump and psql"
type Database struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec DatabaseSpec `json:"spec"`
	// +optional
	Status DatabaseStatus `json:"status,omitempty,omitzero"`
}

// StatusConditions points at the conditions, for the engine to set.
func (d *Database) StatusConditions() *[]metav1.Condition { return &d.Status.Conditions }

// StatusObservedGeneration points at the observed generation, for the engine to
// set.
func (d *Database) StatusObservedGeneration() *int64 { return &d.Status.ObservedGeneration }

// DatabaseList is a list of Databases.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type DatabaseList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Database `json:"items"`
}
