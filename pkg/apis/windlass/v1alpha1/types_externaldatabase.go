package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ExternalDatabasePhase is the phase of an ExternalDatabase.
//
// +kubebuilder:validation:Enum=Pending;Ready;Failed
type ExternalDatabasePhase string

// Phases of an ExternalDatabase.
const (
	// ExternalDatabasePending means that the connection Secret or the server is not available.
	ExternalDatabasePending ExternalDatabasePhase = "Pending"
	// ExternalDatabaseReady means that the owner can connect to the database with the values in the
	// Secret of the ExternalDatabase.
	ExternalDatabaseReady ExternalDatabasePhase = "Ready"
	// ExternalDatabaseFailed means that a user has to act. The condition Ready says why.
	ExternalDatabaseFailed ExternalDatabasePhase = "Failed"
)

// ExternalDatabaseSpec is the desired state of an ExternalDatabase: the role and the database, and the
// server that has them.
//
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || has(self.owner) || !(self.databaseName.startsWith('pg_') || self.databaseName in ['public', 'none'])",optionalOldSelf=true,message="owner must be set, because a role cannot have the name of this database"
// +kubebuilder:validation:XValidation:rule="has(self.owner) == has(oldSelf.owner) && (!has(self.owner) || self.owner == oldSelf.owner)",message="owner cannot be changed, because the operator does not hand over the objects of the previous owner; create another ExternalDatabase, and copy the data with pg_dump and psql"
type ExternalDatabaseSpec struct {
	// connectionSecretRef is a reference to the connection Secret, with which the operator connects to the server. The
	// role in the Secret must be allowed to create roles and databases. The Secret has the keys host, port (defaults to
	// 5432), username, password, dbname (defaults to postgres), sslmode (defaults to verify-full) and ca.crt
	// (certificates in PEM form). The key uri can contain the whole connection except ca.crt, in place of the other keys.
	// The Secret is invalid if uri and another key disagree. A change of the Secret takes effect at once.
	//
	// +required
	ConnectionSecretRef SecretReference `json:"connectionSecretRef"`

	// databaseName is the name of the database on the server. It has at most 63 bytes. It cannot be
	// changed.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="databaseName cannot be changed, because the previous database would stay on the server; create another ExternalDatabase, and copy the data with pg_dump and psql"
	// +kubebuilder:validation:XValidation:rule="bytes(self).size() <= 63 && !self.matches('[[:cntrl:]]') && !(self in ['postgres', 'template0', 'template1'])",message="databaseName may have at most 63 bytes and no control characters, and must not be postgres, template0 or template1"
	DatabaseName string `json:"databaseName"`

	// owner is the name of the role that owns the database and connects to it. It has at most 63 bytes.
	// It cannot be changed. Defaults to databaseName.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="bytes(self).size() <= 63 && !self.matches('[[:cntrl:]]') && !self.startsWith('pg_') && !(self in ['postgres', 'public', 'none'])",message="owner may have at most 63 bytes and no control characters, must not begin with pg_, and must not be postgres, public or none"
	Owner string `json:"owner,omitempty"`

	// extensions are the PostgreSQL extensions that the database must have. The operator creates missing
	// extensions. An extension that is removed from the list stays in the database, because its types
	// may be in use. Defaults to none.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	Extensions []ExtensionName `json:"extensions,omitempty"`

	// metadata are labels and annotations of the Secret <name>-credentials.
	//
	// +optional
	Metadata ChildMetadata `json:"metadata,omitempty,omitzero"`

	// deletionPolicy specifies what happens to the role and the database when the ExternalDatabase is deleted. Retain
	// (the default) keeps both, and the operator does not connect to the server. Delete deletes both, and the
	// ExternalDatabase stays until both are deleted. The field can still be changed while the ExternalDatabase is being
	// deleted.
	//
	// +optional
	// +kubebuilder:default=Retain
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// credentials specifies when the operator rotates the login in the Secret of the ExternalDatabase. Defaults to never.
	// Each change of the annotation windlass.dev/rotate-credentials also requests a rotation.
	//
	// +optional
	Credentials *CredentialsSpec `json:"credentials,omitempty"`
}

// ExtensionName is the name of a PostgreSQL extension that the server has.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_-]+$`
type ExtensionName string

// ExternalDatabaseStatus is the observed state of an ExternalDatabase. The condition Ready is True if the
// owner can connect with the values in the Secret that binding names.
type ExternalDatabaseStatus struct {
	ConditionedStatus `json:",inline"`

	// phase is Pending, Ready or Failed. Pending means that the connection Secret or the server is not available. Ready
	// means that the owner can connect. Failed means that a user has to act.
	//
	// +optional
	Phase ExternalDatabasePhase `json:"phase,omitempty"`

	// binding is a reference to the Secret with which the owner connects, as the Service Binding
	// specification defines it (https://servicebinding.io).
	//
	// +optional
	Binding *SecretBinding `json:"binding,omitempty"`

	// externalID identifies the database: the system identifier of the server, a slash, and the OID of
	// the database.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	ExternalID string `json:"externalID,omitempty"`

	// serverDatabase is the name of the Database in the same namespace whose server has the role and the database. It is
	// empty if the server does not belong to such a Database. If the Database and its volume are deleted, the role and
	// the database are deleted with the volume.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ServerDatabase string `json:"serverDatabase,omitempty"`

	// credentials is the state of the login in the Secret and of its rotation.
	//
	// +optional
	Credentials *CredentialsStatus `json:"credentials,omitempty"`
}

// ExternalDatabase is a role and a database on an existing PostgreSQL server, and a Secret with which clients connect.
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
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || self.metadata.name.size() <= 241",optionalOldSelf=true,fieldPath=".metadata",message="the name may have at most 241 characters, because the Secret is called <name>-credentials"
// +kubebuilder:validation:XValidation:rule="self.spec.connectionSecretRef.name != self.metadata.name + '-credentials' || (oldSelf.hasValue() && oldSelf.value().spec.connectionSecretRef.name == self.spec.connectionSecretRef.name)",optionalOldSelf=true,fieldPath=".spec.connectionSecretRef.name",message="connectionSecretRef must not name <name>-credentials, because this is the Secret that the operator creates for the owner"
type ExternalDatabase struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec ExternalDatabaseSpec `json:"spec"`
	// +optional
	Status ExternalDatabaseStatus `json:"status,omitempty,omitzero"`
}

// Owner returns the name of the owner: spec.owner or, if it is unset, spec.databaseName.
func (d *ExternalDatabase) Owner() string {
	if d.Spec.Owner == "" {
		return d.Spec.DatabaseName
	}
	return d.Spec.Owner
}

// StatusPhase returns status.phase.
func (d *ExternalDatabase) StatusPhase() string { return string(d.Status.Phase) }

// StatusConditions returns a pointer to status.conditions, which the engine sets.
func (d *ExternalDatabase) StatusConditions() *[]metav1.Condition { return &d.Status.Conditions }

// StatusObservedGeneration returns a pointer to status.observedGeneration, which the engine sets.
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
