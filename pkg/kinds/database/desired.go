package database

import (
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

const (
	nameLabel      = "app.kubernetes.io/name"
	nameLabelValue = "database"
	instanceLabel  = "app.kubernetes.io/instance"

	portName = "postgresql"
	port     = 5432
)

// selectorOf returns the labels that select the Pod of a Database. They never change, because the
// selector of a StatefulSet is immutable.
func selectorOf(db *v1alpha1.Database) map[string]string {
	return map[string]string{
		nameLabel: nameLabelValue, instanceLabel: db.Name,
		controller.ManagedByLabel: controller.ManagedByWindlass, // other tools set the first two labels as well
	}
}

// metaOf returns the metadata of all children except the claim. It includes no label or annotation of the Database.
// Tools label the objects that they apply, and delete objects that have this label but are not in their configuration.
func metaOf(db *v1alpha1.Database) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: db.Namespace, Name: db.Name, Labels: labelsOf(db)}
}

// labelsOf returns the labels of the Pod template and of all children except the claim.
func labelsOf(db *v1alpha1.Database) map[string]string {
	labels := selectorOf(db)
	pods.CopyPlatformLabels(labels, db)
	return labels
}

func desiredService(db *v1alpha1.Database) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metaOf(db),
		Spec: corev1.ServiceSpec{
			Selector: selectorOf(db),
			Ports:    []corev1.ServicePort{{Name: portName, Port: port, TargetPort: intstr.FromString(portName)}},
		},
	}
}

// desiredClaim returns the claim. The StatefulSet has no template for the claim, because such templates are immutable,
// and because a StatefulSet uses any existing claim with the right name.
//
// The claim has no label app.kubernetes.io/instance. Argo CD can track the objects that it has applied by this label.
// Argo CD ignores objects with an owner reference, but the claim has no owner reference, because the claim outlives the
// Database.
func desiredClaim(db *v1alpha1.Database) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: db.Namespace, Name: db.Name, Labels: map[string]string{
			nameLabel: nameLabelValue, controller.ManagedByLabel: controller.ManagedByWindlass,
		}},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName: db.Spec.Storage.StorageClassName,
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: db.Spec.Storage.Size},
			},
		},
	}
}

// checkClass returns a Stalled error if the claim has another storage class than the spec. The claim of a previous
// Database can have another class.
func checkClass(db *v1alpha1.Database, claim *corev1.PersistentVolumeClaim) error {
	wanted, is := db.Spec.Storage.StorageClassName, ptr.Deref(claim.Spec.StorageClassName, "")
	if wanted == nil || *wanted == is {
		return nil
	}
	return controller.Stalled(messageOtherClass.Error(claim.Name, strconv.Quote(is), strconv.Quote(*wanted)), 0)
}

// desiredStatefulSet returns the StatefulSet, which has one Pod. With the policy Parallel, the StatefulSet controller
// replaces a Pod that does not start by a Pod of a newer template, except in some versions: see replace. With the
// policy OrderedReady, the controller would wait for such a Pod forever.
func desiredStatefulSet(db *v1alpha1.Database, template *corev1.PodTemplateSpec) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{
		ObjectMeta: metaOf(db),
		Spec: appsv1.StatefulSetSpec{
			Replicas:            ptr.To[int32](1),
			ServiceName:         db.Name,
			PodManagementPolicy: appsv1.ParallelPodManagement,
			UpdateStrategy: appsv1.StatefulSetUpdateStrategy{
				Type:          appsv1.RollingUpdateStatefulSetStrategyType,
				RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: ptr.To[int32](0)},
			},
			Selector: &metav1.LabelSelector{MatchLabels: selectorOf(db)},
			Template: *template.DeepCopy(), // it may share memory with the Database
		},
	}
}
