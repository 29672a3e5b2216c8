package pods

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/children"
)

// Commands finds and releases the Pods that run the commands of a kind. All fields are required.
type Commands struct {
	// Kind is the name of the kind, and Container the name of the container that runs the command.
	Kind, Container string
	Client          coreclient.PodsGetter
	Cache           children.Cache[*corev1.Pod]
	// Owner reads an object of the kind from the API server.
	Owner   func(ctx context.Context, key controller.Key) (metav1.Object, error)
	Tracker *controller.Tracker

	// hidden has the keys of the objects whose Pods IsHidden.
	hidden sync.Map
}

// Find returns the Pod with the given name of the object with a key, or nil. It reads a hidden Pod from the API server,
// and other Pods from the cache.
func (c *Commands) Find(ctx context.Context, key controller.Key, name string) (*corev1.Pod, error) {
	pod, err := c.Cache.Get(key.Namespace, name)
	if apierrors.IsNotFound(err) && c.IsHidden(key) {
		if pod, err = c.Client.Pods(key.Namespace).Get(ctx, name, metav1.GetOptions{}); apierrors.IsNotFound(err) {
			c.hidden.Delete(key)
		}
	}
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading Pod %s/%s: %w", key.Namespace, name, err)
	}
	return pod, nil
}

// IsHidden reports whether the Pod of the object with a key is missing in the cache, because something in the cluster,
// for example an admission policy, does not let Relabel restore the label by which the cache selects Pods. The changes of
// a hidden Pod cause no events.
func (c *Commands) IsHidden(key controller.Key) bool {
	_, hidden := c.hidden.Load(key)
	return hidden
}

// Release removes TrackingFinalizer from the Pod of the object with a key, which no longer needs the Pod. If the command
// has ended, Release also makes the kubelet end the containers for which Outlives is true. In contrast to a deletion, the
// Pod and its logs stay. Release returns the changed Pod. It sends no request if there is nothing to change.
func (c *Commands) Release(ctx context.Context, key controller.Key, pod *corev1.Pod) (*corev1.Pod, error) {
	metadata := map[string]any{}
	change := map[string]any{"metadata": metadata}
	tracked, outlives := IsTracked(pod), Outlives(pod, c.Container)
	if c.IsReleased(key, pod) || !tracked && !outlives {
		c.forget(key, pod)
		return pod, nil
	}
	if tracked {
		metadata["$deleteFromPrimitiveList/finalizers"] = []string{TrackingFinalizer}
	}
	if outlives {
		change["spec"] = map[string]any{"activeDeadlineSeconds": atOnce}
	}
	released, err := c.patch(ctx, key, pod, "releasing", metadata, change)
	if err == nil && pod.DeletionTimestamp != nil {
		c.Tracker.Deleted(key, releasedName(pod), pod.UID)
	}
	return released, err
}

// ReleaseUnowned releases a Pod whose object does not exist, is being deleted, or does not control the Pod: the Pod was
// orphaned, or belongs to an earlier object of the same name. The cache may be outdated, so ReleaseUnowned first reads the
// object from the API server.
func (c *Commands) ReleaseUnowned(ctx context.Context, key controller.Key, pod *corev1.Pod) error {
	if !IsTracked(pod) || c.IsReleased(key, pod) {
		c.forget(key, pod)
		return nil
	}
	owner, err := c.Owner(ctx, key)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading %s %s before its Pod is released: %w", c.Kind, key, err)
	}
	if err == nil && owner.GetDeletionTimestamp() == nil && metav1.IsControlledBy(pod, owner) {
		return nil
	}
	released, err := c.Release(ctx, key, pod)
	if err == nil {
		c.forget(key, released)
	}
	return err
}

// forget forgets that a Pod is hidden, if the object with a key no longer needs the Pod.
func (c *Commands) forget(key controller.Key, pod *corev1.Pod) {
	if !IsTracked(pod) && EndingOf(pod, c.Container) != nil || c.IsReleased(key, pod) {
		c.hidden.Delete(key)
	}
}

// Awaits reports whether an event of a Pod with the finalizer will come.
func (c *Commands) Awaits(pod *corev1.Pod) bool {
	_, err := c.Cache.Get(pod.Namespace, pod.Name)
	return IsTracked(pod) && err == nil
}

// Track adds TrackingFinalizer to a Pod that runs and that somebody has removed it from, and returns the changed Pod. The
// API server accepts no finalizer for a Pod that is being deleted: Track then returns the Pod as it is.
func (c *Commands) Track(ctx context.Context, key controller.Key, pod *corev1.Pod) (*corev1.Pod, error) {
	if IsTracked(pod) || pod.DeletionTimestamp != nil {
		return pod, nil
	}
	metadata := map[string]any{"finalizers": []string{TrackingFinalizer}}
	return c.patch(ctx, key, pod, "restoring the finalizer of", metadata, map[string]any{"metadata": metadata})
}

// Relabel gives a Pod that the cache does not select the labels with which it was created, and returns the changed Pod.
// If the Pod does not keep the labels, Relabel does not try again: the Pod is hidden.
func (c *Commands) Relabel(
	ctx context.Context, key controller.Key, pod *corev1.Pod, labels map[string]string) (*corev1.Pod, error) {
	if IsSelected(pod) || c.IsHidden(key) || c.IsReleased(key, pod) {
		return pod, nil
	}
	metadata := map[string]any{"labels": labels}
	changed, err := c.patch(ctx, key, pod, "restoring the labels of", metadata, map[string]any{"metadata": metadata})
	if err == nil && !IsSelected(changed) {
		c.hidden.Store(key, nil)
	}
	return changed, err
}

// IsSelected reports whether the caches select a Pod.
func IsSelected(pod *corev1.Pod) bool {
	return pod.Labels[controller.ManagedByLabel] == controller.ManagedByWindlass
}

// IsReleased reports whether this process has released a Pod that is being deleted, and that the cache may still have.
func (c *Commands) IsReleased(key controller.Key, pod *corev1.Pod) bool {
	return c.Tracker.IsDeleted(key, releasedName(pod), pod.UID)
}

// releasedName returns the name under which the tracker has the release of a Pod. The deletion has the name of the Pod.
func releasedName(pod *corev1.Pod) string { return pod.Name + "/released" }

// patch changes a Pod. metadata is a part of change. The precondition is the observed version.
func (c *Commands) patch(ctx context.Context, key controller.Key, pod *corev1.Pod, action string, metadata, change map[string]any) (*corev1.Pod, error) {
	metadata["uid"], metadata["resourceVersion"] = pod.UID, pod.ResourceVersion
	text, err := json.Marshal(change)
	var changed *corev1.Pod
	if err == nil {
		changed, err = c.Client.Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, text, metav1.PatchOptions{})
	}
	if apierrors.IsNotFound(err) {
		return pod, controller.AwaitDeletion()
	}
	if err != nil {
		return pod, fmt.Errorf("%s Pod %s/%s: %w", action, pod.Namespace, pod.Name, err)
	}
	c.Tracker.Wrote(key, "Pod", c.Cache, changed.ResourceVersion)
	return changed, nil
}
