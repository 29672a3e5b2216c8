package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ExternalDatabasePhase is where an ExternalDatabase stands.
//
// +kubebuilder:validation:Enum=Pending;Ready;Failed
type ExternalDatabasePhase string

// Phases of an ExternalDatabase.
const (
	// ExternalDatabasePending: the connection Secret or the server is not there yet, or
	// not any more.
	ExternalDatabasePending ExternalDatabasePhase = "Pending"
	// ExternalDatabaseReady: the owner can connect to the database with what the Secret
	// says.
	ExternalDatabaseReady ExternalDatabasePhase = "Ready"
	// ExternalDatabaseFailed: a user must look at it; the condition Ready says why.
	ExternalDatabaseFailed ExternalDatabasePhase = "Failed"
)

// ExternalDatabaseSpec says which role and database to keep on which server.
//
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || has(self.owner) || !(self.databaseName.startsWith('pg_') || self.databaseName in ['public', 'none'])",optionalOldSelf=true,message="owner must be said, since a role may not have the name of this database"
// +kubebuilder:validation:XValidation:rule="has(self.owner) == has(oldSelf.owner) && (!has(self.owner) || self.owner == oldSelf.owner)",message="owner cannot be changed, since what it owns is not handed over: make another ExternalDatabase, and copy the data with pg_dump and psql"
type ExternalDatabaseSpec struct {
	// connectionSecretRef names the Secret, in the same namespace, to reach the server
	// with, as a role that may create roles and databases. It has the key uri, or the
	// keys host, port (5432), username, password and dbname (postgres), and may have
	// sslmode (verify-full by default) and ca (a certificate in PEM form).
	//
	// +required
	ConnectionSecretRef SecretReference `json:"connectionSecretRef"`

	// databaseName is the database to keep on the server. It cannot be changed.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="databaseName cannot be changed, since the database would stay behind: make another ExternalDatabase, and copy the data with pg_dump and psql"
	// +kubebuilder:validation:XValidation:rule="bytes(self).size() <= 63 && !self.matches('[[:cntrl:]]') && !(self in ['postgres', 'template0', 'template1'])",message="databaseName may have 63 bytes at most, no control characters, and not be postgres, template0 or template1"
	DatabaseName string `json:"databaseName"`

	// owner is the role that owns the database and connects to it. It cannot be
	// changed. Defaults to databaseName.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="bytes(self).size() <= 63 && !self.matches('[[:cntrl:]]') && !self.startsWith('pg_') && !(self in ['postgres', 'public', 'none'])",message="owner may have 63 bytes at most, no control characters, not begin with pg_, and not be postgres, public or none"
	Owner string `json:"owner,omitempty"`

	// extensions are made in the database if they are not there. One that is taken off
	// the list stays, since its types may be in use.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	Extensions []ExtensionName `json:"extensions,omitempty"`

	// deletionPolicy is what becomes of role and database when the ExternalDatabase is
	// deleted: Retain leaves both, without asking the server; Delete deletes them, and
	// holds the ExternalDatabase until that is done. What it says at the last moment
	// counts.
	//
	// +optional
	// +kubebuilder:default=Retain
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// ExtensionName is the name of one of the server's extensions.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_-]+$`
type ExtensionName string

// ExternalDatabaseStatus is what was last seen of the ExternalDatabase.
type ExternalDatabaseStatus struct {
	// observedGeneration is the metadata.generation that this status speaks of.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// phase is Pending, Ready or Failed.
	//
	// +optional
	Phase ExternalDatabasePhase `json:"phase,omitempty"`

	// conditions are Ready (the owner can connect with what the Secret says),
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

	// externalID tells the database from every other: the server's system identifier,
	// a slash, and the database's OID there.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	ExternalID string `json:"externalID,omitempty"`
}

// ExternalDatabase is a role and a database on a PostgreSQL server that runs
// elsewhere, and the Secret to connect with.
//
// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=externaldatabases,singular=externaldatabase,scope=Namespaced,shortName=extdb,categories=windlass
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Database",type=string,JSONPath=`.spec.databaseName`
// +kubebuilder:printcolumn:name="Secret",type=string,JSONPath=`.status.binding.name`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || self.metadata.name.size() <= 241",optionalOldSelf=true,message="the name may have 241 characters at most, since that of its Secret has 12 more"
// +kubebuilder:validation:XValidation:rule="self.spec.connectionSecretRef.name != self.metadata.name + '-credentials' || (oldSelf.hasValue() && oldSelf.value().spec.connectionSecretRef.name == self.spec.connectionSecretRef.name)",optionalOldSelf=true,message="connectionSecretRef must name another Secret than the one that is made for the owner, <name>-credentials"
type ExternalDatabase struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec ExternalDatabaseSpec `json:"spec"`
	// +optional
	Status ExternalDatabaseStatus `json:"status,omitempty,omitzero"`
}

// Owner is the role's name: spec.owner, or else that of the database.
func (d *ExternalDatabase) Owner() string {
	if d.Spec.Owner == "" {
		return d.Spec.DatabaseName
	}
	return d.Spec.Owner
}

// StatusConditions points at the conditions, for the engine to set.
func (d *ExternalDatabase) StatusConditions() *[]metav1.Condition { return &d.Status.Conditions }

// StatusObservedGeneration points at the observed generation, for the engine to
// set.
func (d *ExternalDatabase) StatusObservedGeneration() *int64 { return &d.Status.ObservedGeneration }

// ExternalDatabaseList is a list of ExternalDatabases.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type ExternalDatabaseList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ExternalDatabase `json:"items"`
}
