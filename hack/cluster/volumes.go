package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

const (
	provisioner   = "windlass.dev/simulated"
	provisionedBy = "pv.kubernetes.io/provisioned-by"
	madeBy        = "volume.kubernetes.io/storage-provisioner"
	// volumesAgain is the time between resyncs, which retry failed requests.
	volumesAgain = time.Second
)

// classes maps the name of each StorageClass to whether its volumes can grow.
var classes = map[string]bool{"standard": true, "fixed": false}

// ensureClasses creates the StorageClasses. The default class is standard.
func ensureClasses(ctx context.Context, client kubernetes.Interface) error {
	for name, grows := range classes {
		class := &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner, AllowVolumeExpansion: &grows,
		}
		if name == "standard" {
			class.Annotations = map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}
		}
		if _, err := client.StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil &&
			!apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return nil
}

// simulateVolumes starts workers that run until ctx ends. They create a volume without storage for each claim of the
// classes, resize the volume when the claim grows, and delete the volume when it is released. A resync retries failed
// requests.
func simulateVolumes(ctx context.Context, client kubernetes.Interface) error {
	factory := informers.NewSharedInformerFactory(client, volumesAgain)
	err := errors.Join(
		work(ctx, factory.Core().V1().PersistentVolumeClaims().Informer(), func(obj any) error {
			return fill(ctx, client, obj.(*corev1.PersistentVolumeClaim))
		}),
		work(ctx, factory.Core().V1().PersistentVolumes().Informer(), func(obj any) error {
			return release(ctx, client, obj.(*corev1.PersistentVolume))
		}),
	)
	factory.Start(ctx.Done())
	return err
}

// work starts a worker that calls try for each object that changes, until ctx ends. An object that changes several
// times before the worker takes it is in the queue only once, and try gets its newest state.
func work(ctx context.Context, informer cache.SharedIndexInformer, try func(obj any) error) error {
	queue := workqueue.NewTyped[cache.ObjectName]()
	add := func(obj any) {
		if name, err := cache.ObjectToName(obj); err == nil {
			queue.Add(name)
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: add, UpdateFunc: func(_, obj any) { add(obj) },
	}); err != nil {
		return err
	}
	context.AfterFunc(ctx, queue.ShutDown)
	go func() {
		for name, done := queue.Get(); !done; name, done = queue.Get() {
			obj, found, err := informer.GetStore().GetByKey(name.String())
			if found && err == nil {
				err = try(obj)
			}
			if err != nil && ctx.Err() == nil {
				fmt.Fprintln(os.Stderr, "volumes:", err)
			}
			queue.Done(name)
		}
	}()
	return nil
}

// fill creates the volume of a claim, or resizes it to the size that the claim requests.
func fill(ctx context.Context, client kubernetes.Interface, claim *corev1.PersistentVolumeClaim) error {
	class := claim.Spec.StorageClassName
	if class == nil || claim.DeletionTimestamp != nil {
		return nil
	}
	if _, ours := classes[*class]; !ours {
		return nil
	}
	wanted := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if claim.Spec.VolumeName == "" {
		// The volume controller names the provisioner that has to create the volume.
		if claim.Annotations[madeBy] != provisioner {
			return nil
		}
		_, err := client.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{
				Name: "pvc-" + string(claim.UID), Annotations: map[string]string{provisionedBy: provisioner},
			},
			Spec: corev1.PersistentVolumeSpec{
				StorageClassName: *class, AccessModes: claim.Spec.AccessModes,
				PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
				Capacity:                      corev1.ResourceList{corev1.ResourceStorage: wanted},
				ClaimRef: &corev1.ObjectReference{
					APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
				},
				PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/nowhere"}},
			},
		}, metav1.CreateOptions{})
		return unless(err, apierrors.IsAlreadyExists)
	}
	if has := claim.Status.Capacity[corev1.ResourceStorage]; claim.Status.Phase != corev1.ClaimBound ||
		wanted.Cmp(has) <= 0 {
		return nil
	}
	volume, err := client.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		return unless(err, apierrors.IsNotFound)
	}
	volume.Spec.Capacity[corev1.ResourceStorage] = wanted
	if _, err := client.CoreV1().PersistentVolumes().Update(ctx, volume, metav1.UpdateOptions{}); err != nil {
		return unless(err, apierrors.IsConflict)
	}
	claim = claim.DeepCopy()
	claim.Status.Capacity[corev1.ResourceStorage] = wanted
	_, err = client.CoreV1().PersistentVolumeClaims(claim.Namespace).UpdateStatus(ctx, claim, metav1.UpdateOptions{})
	return unless(err, apierrors.IsConflict, apierrors.IsNotFound)
}

// release deletes a volume whose claim was deleted.
func release(ctx context.Context, client kubernetes.Interface, volume *corev1.PersistentVolume) error {
	if volume.Annotations[provisionedBy] != provisioner || volume.Status.Phase != corev1.VolumeReleased ||
		volume.DeletionTimestamp != nil {
		return nil
	}
	return unless(client.CoreV1().PersistentVolumes().Delete(ctx, volume.Name, metav1.DeleteOptions{}),
		apierrors.IsNotFound)
}

// unless returns err, or nil if one of the functions reports that err is expected.
func unless(err error, expected ...func(error) bool) error {
	if slices.ContainsFunc(expected, func(is func(error) bool) bool { return is(err) }) {
		return nil
	}
	return err
}
