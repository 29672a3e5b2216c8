package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// AppVolume is a volume of an App, and its mount in the container.
//
// +kubebuilder:validation:XValidation:rule="[has(self.claim), has(self.persistentVolumeClaim), has(self.emptyDir), has(self.secret), has(self.configMap), has(self.image)].exists_one(set, set)",message="a volume needs exactly one of claim, persistentVolumeClaim, emptyDir, secret, configMap and image"
// +kubebuilder:validation:XValidation:rule="!has(self.claim) || has(self.name)",message="a volume with a claim needs a name, which becomes the end of the name of the PersistentVolumeClaim"
// +kubebuilder:validation:XValidation:rule="!has(self.subPath) || !((has(self.secret) && has(self.secret.reload) && self.secret.reload) || (has(self.configMap) && has(self.configMap.reload) && self.configMap.reload))",message="reload has no effect with subPath, because the kubelet does not change these files; remove reload or subPath"
type AppVolume struct {
	// mountPath is the path in the container at which the volume is mounted.
	//
	// +required
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^/[^:]*$`
	MountPath string `json:"mountPath"`

	// name is the name of the volume in the Pod, and the end of the name of its PersistentVolumeClaim. It is required for
	// a claim. Defaults to mountPath in lower case, with '-' in place of other characters than letters and digits. The
	// volume of /var/lib/api has the name var-lib-api.
	//
	// +kubebuilder:validation:XValidation:rule="self != 'app-config'",message="the name app-config is reserved for the files of config"
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`

	// subPath is the path in the volume that is mounted. Defaults to the root of the volume.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	SubPath string `json:"subPath,omitempty"`

	// readOnly is true if the container must not write to the volume.
	//
	// +optional
	ReadOnly bool `json:"readOnly,omitempty"`

	// claim is a PersistentVolumeClaim that the operator creates for the App. It stays when this volume is removed
	// from the App. Its deletionPolicy specifies whether it stays when the App is deleted. A later App with the same
	// name and volume uses it again.
	//
	// +optional
	Claim *AppClaim `json:"claim,omitempty"`

	// persistentVolumeClaim is a PersistentVolumeClaim that the operator does not create. Unless the volume is readOnly,
	// the default of rollout.strategy is Recreate.
	//
	// +optional
	PersistentVolumeClaim *AppVolumeClaim `json:"persistentVolumeClaim,omitempty"`

	// emptyDir is an empty directory that is deleted with its Pod.
	//
	// +optional
	EmptyDir *AppEmptyDir `json:"emptyDir,omitempty"`

	// secret is a Secret whose keys become files.
	//
	// +optional
	Secret *AppFiles `json:"secret,omitempty"`

	// configMap is a ConfigMap whose keys become files.
	//
	// +optional
	ConfigMap *AppFiles `json:"configMap,omitempty"`

	// image is a container image whose files are mounted. The mount is always read-only.
	//
	// +optional
	Image *AppImageVolume `json:"image,omitempty"`
}

// AppClaim is a PersistentVolumeClaim of an App.
//
// +kubebuilder:validation:XValidation:rule="has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",message="storageClassName cannot be changed, because a volume keeps its class; add another volume, and copy the data"
// +kubebuilder:validation:XValidation:rule="(has(self.accessModes) ? self.accessModes : ['ReadWriteOnce']) == (has(oldSelf.accessModes) ? oldSelf.accessModes : ['ReadWriteOnce'])",message="accessModes cannot be changed, because a volume keeps its access modes; add another volume, and copy the data"
type AppClaim struct {
	// size is the minimum size of the volume. It can be increased if the storage class allows volumes to grow. A size below
	// the size of the volume has no effect.
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

	// accessModes says how nodes can mount the volume. It cannot be changed. Without ReadWriteMany, the default of
	// rollout.strategy is Recreate. Defaults to ReadWriteOnce.
	//
	// +optional
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:items:Enum=ReadWriteOnce;ReadOnlyMany;ReadWriteMany;ReadWriteOncePod
	// +listType=atomic
	AccessModes []corev1.PersistentVolumeAccessMode `json:"accessModes,omitempty"`

	// deletionPolicy specifies what happens to the claim when the App is deleted. Retain (the default) keeps the claim.
	// Delete deletes the claim with its data. A claim of a previous App of the same name stays if the operator has not yet
	// applied it for this App. Delete can still be changed to Retain while the App is being deleted. If the volume is
	// removed from the App, the claim stays.
	//
	// +optional
	// +kubebuilder:default=Retain
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// AppVolumeClaim refers to a PersistentVolumeClaim in the namespace of the App.
type AppVolumeClaim struct {
	// claimName is the name of the PersistentVolumeClaim.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ClaimName string `json:"claimName"`
}

// AppEmptyDir is a directory that is empty when a Pod starts.
type AppEmptyDir struct {
	// medium is Memory for a directory in memory. Defaults to the storage of the node.
	//
	// +optional
	// +kubebuilder:validation:Enum=Memory
	Medium corev1.StorageMedium `json:"medium,omitempty"`

	// sizeLimit is the size beyond which a Pod is evicted. Defaults to no limit.
	//
	// +optional
	SizeLimit *resource.Quantity `json:"sizeLimit,omitempty"`
}

// AppFiles refers to a Secret or ConfigMap whose keys become files. The object must exist before the App starts, unless
// the reference is optional. A change of the content replaces the Pods, unless reload is true.
type AppFiles struct {
	// name is the name of the Secret or ConfigMap.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// optional is true if the App starts without the object.
	//
	// +optional
	Optional *bool `json:"optional,omitempty"`

	// reload is true if the program reads changed files again. A change of the content then replaces no Pods: the kubelet
	// changes the files within about a minute.
	//
	// +optional
	Reload bool `json:"reload,omitempty"`
}

// AppImageVolume is a container image whose files are mounted.
type AppImageVolume struct {
	// reference is the name of the image.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^\S+$`
	Reference string `json:"reference"`
}
