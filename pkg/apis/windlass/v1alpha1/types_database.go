package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
)

// DatabasePhase is the phase of a Database.
//
// +kubebuilder:validation:Enum=Pending;Deploying;Ready;Failed
type DatabasePhase string

// Phases of a Database.
const (
	// DatabasePending means that the operator could not create all objects yet, and retries.
	DatabasePending DatabasePhase = "Pending"
	// DatabaseDeploying means that PostgreSQL is starting, for the first time or again.
	DatabaseDeploying DatabasePhase = "Deploying"
	// DatabaseReady means that PostgreSQL accepts connections with the values in the Secret.
	DatabaseReady DatabasePhase = "Ready"
	// DatabaseFailed means that a user has to act. The condition Ready says why.
	DatabaseFailed DatabasePhase = "Failed"
)

// DeletionPolicy specifies what happens to the data when its Database, ExternalDatabase or App is deleted.
//
// +kubebuilder:validation:Enum=Retain;Delete
type DeletionPolicy string

// Deletion policies.
const (
	// DeletionRetain keeps the data.
	DeletionRetain DeletionPolicy = "Retain"
	// DeletionDelete deletes the data.
	DeletionDelete DeletionPolicy = "Delete"
)

// DatabaseSpec is the desired state of a Database: the PostgreSQL server, and the volume for its data.
//
// +kubebuilder:validation:XValidation:rule="!has(self.restoreFrom) || (has(oldSelf.restoreFrom) && self.restoreFrom == oldSelf.restoreFrom)",fieldPath=".restoreFrom",message="restoreFrom can only be set when the Database is created; create another Database to restore a backup"
type DatabaseSpec struct {
	// version is the major version of PostgreSQL. It cannot be changed, because PostgreSQL does not read
	// the data of another major version.
	//
	// +required
	// +kubebuilder:validation:Enum="14";"15";"16";"17";"18"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="version cannot be changed, because PostgreSQL does not read the data of another major version; create another Database of the new version, and copy the data with pg_dump and psql"
	Version string `json:"version"`

	// image is the container image of PostgreSQL. Set it to choose a minor version, or to use another registry. The image
	// must have the major version in the field version, the programs of PostgreSQL in PATH, a shell, and a user with the
	// ID 999. The official Debian images of Docker have all of these. A change restarts PostgreSQL. Defaults to
	// postgres:<version>. The operator's flag --postgresql-image sets another name in place of postgres.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^\S*$`
	Image string `json:"image,omitempty"`

	// storage is the volume for the data.
	//
	// +required
	Storage DatabaseStorage `json:"storage"`

	// databaseName is the name of the database. It has at most 63 bytes. If it is changed, the operator creates a
	// database with the new name, and does not change the previous database. Defaults to app.
	//
	// +optional
	// +kubebuilder:default=app
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="bytes(self).size() <= 63 && !self.matches('[[:cntrl:]]') && !(self in ['postgres', 'template0', 'template1'])",message="databaseName may have at most 63 bytes and no control characters, and must not be postgres, template0 or template1"
	DatabaseName string `json:"databaseName,omitempty"`

	// owner is the name of the role that owns the database and connects to it. It has at most 63 bytes. If it is changed,
	// the operator creates a role with the new name, and gives this role everything that previous owners own in the
	// database. Previous owners can no longer log in. Defaults to app.
	//
	// +optional
	// +kubebuilder:default=app
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="bytes(self).size() <= 63 && !self.matches('[[:cntrl:]]') && !self.startsWith('pg_') && !(self in ['postgres', 'public', 'none'])",message="owner may have at most 63 bytes and no control characters, must not begin with pg_, and must not be postgres, public or none"
	Owner string `json:"owner,omitempty"`

	// ownerAttributes are further attributes of the owner: CreateDB (create databases) and CreateRole
	// (create roles). With both, ExternalDatabases can use this server through the Secret of this
	// Database. On versions 14 and 15, a role with CreateRole can give itself every privilege except the
	// privileges of a superuser, and run programs in the container. Defaults to none.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=2
	OwnerAttributes []OwnerAttribute `json:"ownerAttributes,omitempty"`

	// parameters are settings of the server, by their names in lower case
	// (https://www.postgresql.org/docs/current/runtime-config.html). A change takes effect at once if PostgreSQL can
	// reload the parameter; otherwise it needs a restart: see updatePolicy. If PostgreSQL rejects a value, the condition
	// Ready reports the error, and the parameter keeps its previous value.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=128
	// +kubebuilder:validation:XValidation:rule="self.all(name, name.size() <= 63 && name.matches('^[a-z][a-z0-9_]*([.][a-z][a-z0-9_]*)*$'))",message="the name of a parameter may have at most 63 characters: lower-case letters, digits, '_' and '.'; each part between dots must begin with a letter"
	// +kubebuilder:validation:XValidation:rule="!self.exists(name, name in ['config_file', 'data_directory', 'external_pid_file', 'hba_file', 'ident_file', 'listen_addresses', 'port', 'unix_socket_directories'])",message="config_file, data_directory, external_pid_file, hba_file, ident_file, listen_addresses, port and unix_socket_directories cannot be set, because the operator controls them"
	// +kubebuilder:validation:XValidation:rule="!self.exists(name, name in ['ssl', 'ssl_ca_file', 'ssl_cert_file', 'ssl_crl_dir', 'ssl_crl_file', 'ssl_key_file', 'ssl_passphrase_command', 'ssl_passphrase_command_supports_reload'])",message="ssl, ssl_ca_file, ssl_cert_file, ssl_crl_dir, ssl_crl_file, ssl_key_file, ssl_passphrase_command and ssl_passphrase_command_supports_reload cannot be set, because tls specifies how connections are encrypted"
	// +kubebuilder:validation:XValidation:rule="(!('wal_level' in self) || self['wal_level'] in ['replica', 'logical']) && ['max_wal_senders', 'max_replication_slots'].all(name, !(name in self) || self[name].matches('^[1-9][0-9]{1,3}$'))",message="wal_level must be replica or logical, and max_wal_senders and max_replication_slots must be numbers from 10 to 9999, because backups read the write-ahead log through connections of their own"
	Parameters map[string]ParameterValue `json:"parameters,omitempty"`

	// resources are the resource requests and limits of the container. A change restarts PostgreSQL.
	//
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitempty,omitzero"`

	// updatePolicy specifies when a change that needs a restart of PostgreSQL takes effect: a change of image, resources
	// or podTemplate, and of parameters that PostgreSQL reads only when it starts. Automatic (the default) restarts
	// PostgreSQL at once. Manual waits until the annotation windlass.dev/restart of the Database gets a new value, and
	// status.pendingRestart lists the changes that wait. All other changes take effect without a restart under both
	// policies.
	//
	// +optional
	// +kubebuilder:default=Automatic
	UpdatePolicy UpdatePolicy `json:"updatePolicy,omitempty"`

	// credentials specifies when the operator rotates the login in the connection Secret. Defaults to never. Each change
	// of the annotation windlass.dev/rotate-credentials also requests a rotation.
	//
	// +optional
	Credentials *CredentialsSpec `json:"credentials,omitempty"`

	// tls specifies how connections to the server are encrypted. By default, the server rejects connections without TLS,
	// and the connection Secret has the CA with which clients verify the server. Apps get the CA as a file.
	//
	// +optional
	TLS DatabaseTLS `json:"tls,omitempty,omitzero"`

	// backup specifies how the data is backed up. Defaults to no backup.
	//
	// +optional
	Backup *DatabaseBackup `json:"backup,omitempty"`

	// restoreFrom is the backup from which the Database gets its data. It takes effect when the Database is created, on an
	// empty volume. Afterwards, it can be removed, but not changed. Owner, database and logins are those of this
	// Database, with new passwords. databaseName must be the name of a database in the backup.
	//
	// +optional
	RestoreFrom *DatabaseRestore `json:"restoreFrom,omitempty"`

	// podTemplate is merged into the Pod template that the operator generates, for example for tolerations or another
	// container. The container of PostgreSQL is named postgresql. A change restarts PostgreSQL.
	//
	// +optional
	PodTemplate *cnatv1.PodTemplate `json:"podTemplate,omitempty"`

	// metadata are labels and annotations of the children and of the claim, for example for cost reports, or to select
	// claims for snapshots. The Pod has only the labels and annotations from podTemplate. A change does not restart
	// PostgreSQL.
	//
	// +optional
	Metadata ChildMetadata `json:"metadata,omitempty,omitzero"`

	// deletionPolicy specifies what happens to the volume when the Database is deleted. Retain (the default) keeps the
	// volume: a later Database of the same name uses it. Delete deletes the volume and its data. The volume of a previous
	// Database of the same name stays if the operator has not yet applied it for this Database. The field can still be
	// changed while the Database is being deleted.
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
	// OwnerCreateDB allows the owner to create databases.
	OwnerCreateDB OwnerAttribute = "CreateDB"
	// OwnerCreateRole allows the owner to create roles.
	OwnerCreateRole OwnerAttribute = "CreateRole"
)

// ParameterValue is the value of a parameter of PostgreSQL, as on the command line of the server.
//
// +kubebuilder:validation:MaxLength=4096
// +kubebuilder:validation:Pattern=`^[^\x00-\x1f\x7f]*$`
type ParameterValue string

// UpdatePolicy specifies when a change that needs a restart of PostgreSQL takes effect.
//
// +kubebuilder:validation:Enum=Automatic;Manual
type UpdatePolicy string

// Update policies.
const (
	// UpdateAutomatic restarts PostgreSQL at once.
	UpdateAutomatic UpdatePolicy = "Automatic"
	// UpdateManual waits until a user requests a restart.
	UpdateManual UpdatePolicy = "Manual"
)

// DatabaseStorage is the volume of a Database.
//
// +kubebuilder:validation:XValidation:rule="has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",message="storage.storageClassName cannot be changed, because a volume stays in its storage class; create another Database of that class, and copy the data with pg_dump and psql"
// +kubebuilder:validation:XValidation:rule="!has(self.maxSize) || [self.size, self.maxSize].exists(size, !string(size).matches('^[+-]?[0-9.]{1,64}([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?$')) || quantity(string(self.maxSize)).compareTo(quantity(string(self.size))) >= 0",fieldPath=".maxSize",message="storage.maxSize must not be below storage.size"
type DatabaseStorage struct {
	// size is the minimum size of the volume. It can be increased if the storage class allows volumes to
	// grow. It cannot be reduced below the size of the volume.
	//
	// +required
	// +kubebuilder:validation:XValidation:rule="string(self).matches('^[+]?[0-9.]*[1-9]')",message="storage.size must be above 0"
	Size resource.Quantity `json:"size"`

	// maxSize is the size up to which the volume grows by itself. When four fifths of the volume are used, the volume
	// grows by a fifth, rounded up to GiB. The storage class must allow volumes to grow, and the operator must be able to
	// connect to the Pod. Defaults to no growth.
	//
	// +optional
	MaxSize *resource.Quantity `json:"maxSize,omitempty"`

	// storageClassName is the name of the StorageClass of the volume. It cannot be changed. Defaults to
	// the default StorageClass of the cluster.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	StorageClassName *string `json:"storageClassName,omitempty"`
}

// Database is a PostgreSQL server on a volume, with one database, the role that owns it, and a Secret with which
// clients connect.
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
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || (self.metadata.name.size() <= 52 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$'))",optionalOldSelf=true,fieldPath=".metadata",message="the name must be valid for a Service and a StatefulSet: at most 52 characters, lower-case letters, digits and '-', beginning with a letter, and ending with a letter or a digit"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.tls) || !has(self.spec.tls.secretName) || !(self.spec.tls.secretName in [self.metadata.name + '-certificate', self.metadata.name + '-credentials', self.metadata.name + '-settings'])",fieldPath=".spec.tls.secretName",message="tls.secretName must not name <name>-certificate, <name>-credentials or <name>-settings, because these are Secrets that the operator creates"
// +kubebuilder:validation:XValidation:rule="string(self.spec.storage.size) == string(oldSelf.spec.storage.size) || [self.spec.storage.size, oldSelf.spec.storage.size].exists(size, !string(size).matches('^[+-]?[0-9.]{1,64}([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?$')) || quantity(string(self.spec.storage.size)).compareTo(quantity(string(oldSelf.spec.storage.size))) >= 0 || (has(oldSelf.status) && has(oldSelf.status.storage) && quantity(string(self.spec.storage.size)).compareTo(quantity(string(oldSelf.status.storage))) >= 0)",fieldPath=".spec.storage.size",message="storage.size cannot shrink, because a volume never shrinks; create another Database with less storage, and copy the data with pg_dump and psql"
type Database struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec DatabaseSpec `json:"spec"`
	// +optional
	Status DatabaseStatus `json:"status,omitempty,omitzero"`
}

// StatusPhase returns status.phase.
func (d *Database) StatusPhase() string { return string(d.Status.Phase) }

// StatusConditions returns a pointer to status.conditions, which the engine sets.
func (d *Database) StatusConditions() *[]metav1.Condition { return &d.Status.Conditions }

// StatusObservedGeneration returns a pointer to status.observedGeneration, which the engine sets.
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
