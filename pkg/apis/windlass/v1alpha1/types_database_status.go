package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DatabaseStatus is the observed state of a Database. The condition Ready is True if PostgreSQL accepts
// connections with the values in the Secret.
type DatabaseStatus struct {
	ConditionedStatus `json:",inline"`

	// phase is Pending, Deploying, Ready or Failed. Pending means that the operator could not create all objects yet, and
	// retries. Deploying means that PostgreSQL is starting. Ready means that PostgreSQL accepts connections. Failed means
	// that a user has to act.
	//
	// +optional
	Phase DatabasePhase `json:"phase,omitempty"`

	// binding is a reference to the connection Secret, as the Service Binding specification defines it
	// (https://servicebinding.io).
	//
	// +optional
	Binding *SecretBinding `json:"binding,omitempty"`

	// storage is the size of the volume. If the volume has not grown to spec.storage.size yet, or cannot
	// grow, spec.storage.size can be set back to this size.
	//
	// +optional
	Storage *resource.Quantity `json:"storage,omitempty"`

	// pendingRestart lists the changes that wait for a restart. spec.image, spec.resources and spec.podTemplate take
	// effect when the annotation windlass.dev/restart gets a new value, or updatePolicy becomes Automatic. Parameters,
	// which are listed by their names, take effect at any restart of PostgreSQL.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	PendingRestart []string `json:"pendingRestart,omitempty"`

	// credentials is the state of the login in the connection Secret and of its rotation.
	//
	// +optional
	Credentials *CredentialsStatus `json:"credentials,omitempty"`

	// server is the observed state of the PostgreSQL server with the newest settings. It is empty if the operator could
	// not connect, or if the server does not have the newest settings yet.
	//
	// +optional
	Server *DatabaseServerStatus `json:"server,omitempty"`

	// backup is the observed state of the backup. The condition BackedUp says whether the backup works.
	//
	// +optional
	Backup *DatabaseBackupStatus `json:"backup,omitempty"`

	// restoredClaim is the UID of the PersistentVolumeClaim to which a backup was restored.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=63
	RestoredClaim string `json:"restoredClaim,omitempty"`
}

// DatabaseServerStatus is the observed state of a PostgreSQL server.
type DatabaseServerStatus struct {
	// revision identifies the settings that the server has.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Revision string `json:"revision,omitempty"`

	// startTime is when the container started.
	//
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// problem says which settings the server could not apply, and why. The server runs with the previous settings.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Problem string `json:"problem,omitempty"`

	// volumeUsedPercent says how full the volume is: 80, 90 or 95 if at least so many percent are used, or 100 while
	// transactions are read-only because less than 32 MiB were free. Below 80 percent, the field is empty.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	VolumeUsedPercent int32 `json:"volumeUsedPercent,omitempty"`
}

// SecretBinding is a reference to a Secret in the same namespace.
type SecretBinding struct {
	// name is the name of the Secret.
	//
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}
