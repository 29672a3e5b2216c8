package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
)

// DatabaseBackup specifies how the data of a Database is backed up. A Pod beside the server streams the write-ahead log
// all the time, and takes base backups. Turning backups on or off does not restart PostgreSQL.
type DatabaseBackup struct {
	// schedule specifies when base backups are taken, in the format of a CronJob, in UTC. A base backup that was due
	// while the operator did not run is taken when the operator runs again. Each change of the annotation
	// windlass.dev/backup also requests a base backup. Defaults to 03:00 every day.
	//
	// +optional
	// +kubebuilder:default="0 3 * * *"
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|([0-9A-Za-z*,/?-]+ +){4}[0-9A-Za-z*,/?-]+)$')",message="schedule must have the five fields of the schedule of a CronJob, such as 0 3 * * *, or be @daily, @hourly, @weekly, @monthly or @yearly"
	Schedule string `json:"schedule,omitempty"`

	// keep is the number of base backups that are kept; after gaps in the write-ahead log, up to twice as many. Each base
	// backup leads to every later time until the next gap. The write-ahead log before the oldest base backup is removed.
	// Defaults to 7.
	//
	// +optional
	// +kubebuilder:default=7
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=366
	Keep int32 `json:"keep,omitempty"`

	// destination is where the backups are stored.
	//
	// +required
	Destination BackupDestination `json:"destination"`

	// podTemplate is merged into the Pod template that the operator generates for the Pod of the backup, for example for
	// tolerations. The container is named backup.
	//
	// +optional
	PodTemplate *cnatv1.PodTemplate `json:"podTemplate,omitempty"`
}

// BackupDestination is where backups are stored.
type BackupDestination struct {
	// claim is the PersistentVolumeClaim <name>-backup, which the operator creates. The claim stays when the backup is
	// turned off, and when the Database is deleted, whatever deletionPolicy says.
	//
	// +required
	Claim BackupClaim `json:"claim"`
}

// BackupClaim is the volume for backups.
//
// +kubebuilder:validation:XValidation:rule="has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",message="storageClassName cannot be changed, because a volume stays in its storage class"
type BackupClaim struct {
	// size is the minimum size of the volume. The volume needs space for the base backups, which are compressed, for a
	// further base backup, and for the write-ahead log since the oldest one. It can be increased if the storage class
	// allows volumes to grow.
	//
	// +required
	// +kubebuilder:validation:XValidation:rule="string(self).matches('^[+]?[0-9.]*[1-9]')",message="size must be above 0"
	Size resource.Quantity `json:"size"`

	// storageClassName is the name of the StorageClass of the volume. It cannot be changed. Defaults to the default
	// StorageClass of the cluster.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	StorageClassName *string `json:"storageClassName,omitempty"`
}

// DatabaseBackupStatus is the observed state of the backup of a Database.
type DatabaseBackupStatus struct {
	// recoverableFrom is the earliest time to which the Database can be restored: the end of the oldest base backup since
	// which the write-ahead log has no gap.
	//
	// +optional
	RecoverableFrom *metav1.Time `json:"recoverableFrom,omitempty"`

	// recoverableUntil is the latest time to which the Database can be restored, if the backup is more than 90 seconds
	// behind the server. Otherwise it is empty: the backup then reaches to some seconds ago or, if PostgreSQL does not run,
	// to some seconds before it stopped.
	//
	// +optional
	RecoverableUntil *metav1.Time `json:"recoverableUntil,omitempty"`

	// lastBackup is when the newest base backup ended.
	//
	// +optional
	LastBackup *metav1.Time `json:"lastBackup,omitempty"`

	// count is the number of complete base backups.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	Count int32 `json:"count,omitempty"`

	// volumeUsedPercent says how full the volume for backups is: 80, 90 or 95 if at least so many percent are used, or 100
	// if less than 32 MiB are free. Below 80 percent, the field is empty.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	VolumeUsedPercent int32 `json:"volumeUsedPercent,omitempty"`
}

// DatabaseRestore is the backup from which a Database gets its first data.
type DatabaseRestore struct {
	// database is the Database whose backup is restored. It may be deleted: its backup is in the PersistentVolumeClaim
	// <name>-backup.
	//
	// +required
	Database LocalDatabase `json:"database"`

	// time is the time to which the data is restored: it has all transactions until then, and no later ones. Defaults to
	// the latest time.
	//
	// +optional
	Time *metav1.Time `json:"time,omitempty"`
}

// LocalDatabase is a reference to a Database in the same namespace.
type LocalDatabase struct {
	// name is the name of the Database.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=52
	Name string `json:"name"`
}
