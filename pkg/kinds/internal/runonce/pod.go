package runonce

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

// Rejection is the error of a Pod that the API server has rejected.
type Rejection struct {
	// Err is the error of the API server.
	Err error
	// After is the time until the next attempt is due.
	After time.Duration
}

// Error implements error.
func (r *Rejection) Error() string { return r.Err.Error() }

// Create creates the Pod of owner that desired returns, and returns its state. If a Pod with this name exists although
// the cache lacks it, Create returns the state of that Pod. If the API server rejects the Pod, Create returns a
// Rejection. It returns the same Rejection, and sends no request, until the next attempt is due. attempt identifies the
// input of the Pod: an attempt with another input is due at once.
func (c *Commands) Create(
	ctx context.Context, owner metav1.Object, attempt any, desired func() (*corev1.Pod, error)) (State, error) {
	last, rejected := c.rejections.Recent(owner.GetUID(), "", attempt)
	if !rejected {
		pod, err := desired()
		if err != nil {
			return State{}, err
		}
		key := cache.MetaObjectToName(owner)
		pod, err = c.client.Pods(key.Namespace).Create(ctx, pod, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			if live, readErr := c.Live(ctx, owner); live.Pod != nil || readErr != nil {
				return live, readErr
			}
		}
		switch {
		case err == nil:
			c.Tracker.Wrote(key, "Pod", c.cache, pod.ResourceVersion)
			return c.stateOf(owner, pod, !isSelected(pod)), nil
		case !pods.IsRejection(err):
			return State{}, fmt.Errorf("creating Pod %s%s: %w", key, c.suffix, err)
		}
		last = c.rejections.Note(owner.GetUID(), "", attempt, err, pods.ShortestRejection, pods.LongestRejection)
	}
	return State{}, &Rejection{last.Err, last.Until.Sub(c.clock.Now())}
}

// OpenGate removes a scheduling gate from a Pod.
func (c *Commands) OpenGate(ctx context.Context, s State, gate string) error {
	gates := map[string]any{"schedulingGates": []any{map[string]any{"$patch": "delete", "name": gate}}}
	_, err := c.patch(ctx, s, "removing the scheduling gate of", map[string]any{}, gates)
	return err
}

// Track adds pods.TrackingFinalizer to a Pod from which somebody has removed the finalizer, and returns the changed
// state. If the Pod is being deleted, Track returns the state as it is, because the API server accepts no new
// finalizer.
func (c *Commands) Track(ctx context.Context, s State) (State, error) {
	if pods.IsTracked(s.Pod) || s.Pod.DeletionTimestamp != nil {
		return s, nil
	}
	metadata := map[string]any{"finalizers": []string{pods.TrackingFinalizer}}
	return c.patch(ctx, s, "restoring the finalizer of", metadata, nil)
}

// Relabel restores the labels of a Pod that the cache does not select, and returns the changed state. If the Pod does
// not keep the labels, the Pod is hidden, and Relabel does not try again.
func (c *Commands) Relabel(ctx context.Context, s State, labels map[string]string) (State, error) {
	if isSelected(s.Pod) || c.isHidden(s.owner) || c.isReleased(s) {
		return s, nil
	}
	s, err := c.patch(ctx, s, "restoring the labels of", map[string]any{"labels": labels}, nil)
	if err == nil && !isSelected(s.Pod) {
		c.hidden.Store(s.owner, nil)
	}
	return s, err
}

// isSelected reports whether the caches select a Pod.
func isSelected(pod *corev1.Pod) bool {
	return pod.Labels[controller.ManagedByLabel] == controller.ManagedByWindlass
}

// Remove releases a Pod and deletes it.
func (c *Commands) Remove(ctx context.Context, s State) error {
	released, err := c.ReleasePod(ctx, s)
	if err != nil {
		return err
	}
	return c.Delete(ctx, released)
}

// Delete deletes a Pod, unless it is being deleted. The precondition is the observed version, so that a Pod that has
// started or succeeded in the meantime is not deleted.
func (c *Commands) Delete(ctx context.Context, s State) error {
	pod := s.Pod
	if pod.DeletionTimestamp != nil || c.Tracker.IsDeleted(s.owner, pod.Name, pod.UID) {
		return nil
	}
	err := c.client.Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &pod.UID, ResourceVersion: &pod.ResourceVersion},
	})
	if apierrors.IsNotFound(err) {
		return controller.ErrDeletionNotObserved
	}
	if err != nil {
		return fmt.Errorf("deleting Pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	c.Tracker.Deleted(s.owner, pod.Name, pod.UID)
	return nil
}

// patch changes metadata and spec of a Pod, and returns the changed state. The precondition is the observed version.
func (c *Commands) patch(ctx context.Context, s State, action string, metadata, spec map[string]any) (State, error) {
	pod := s.Pod
	metadata["uid"], metadata["resourceVersion"] = pod.UID, pod.ResourceVersion
	change := map[string]any{"metadata": metadata}
	if spec != nil {
		change["spec"] = spec
	}
	text, err := json.Marshal(change)
	if err == nil {
		client := c.client.Pods(pod.Namespace)
		pod, err = client.Patch(ctx, pod.Name, types.StrategicMergePatchType, text, metav1.PatchOptions{})
	}
	if apierrors.IsNotFound(err) {
		return s, controller.ErrDeletionNotObserved
	}
	if err != nil {
		return s, fmt.Errorf("%s Pod %s/%s: %w", action, s.Pod.Namespace, s.Pod.Name, err)
	}
	c.Tracker.Wrote(s.owner, "Pod", c.cache, pod.ResourceVersion)
	s.Pod = pod
	return s, nil
}

// ReleasePod removes pods.TrackingFinalizer from a Pod that its owner no longer needs. If containers outlive the
// command (see outlives), ReleasePod also makes the kubelet end them: in contrast to a deletion, the Pod and its logs
// stay. ReleasePod returns the changed state. It sends no request if there is nothing to change.
func (c *Commands) ReleasePod(ctx context.Context, s State) (State, error) {
	metadata, spec := map[string]any{}, map[string]any(nil)
	tracked, outlived := pods.IsTracked(s.Pod), outlives(s.Pod, c.container)
	if c.isReleased(s) || !tracked && !outlived {
		c.forget(s)
		return s, nil
	}
	if tracked {
		metadata["$deleteFromPrimitiveList/finalizers"] = []string{pods.TrackingFinalizer}
	}
	if outlived {
		spec = map[string]any{"activeDeadlineSeconds": atOnce}
	}
	released, err := c.patch(ctx, s, "releasing", metadata, spec)
	if err == nil && s.Pod.DeletionTimestamp != nil {
		c.Tracker.Deleted(s.owner, releasedName(s.Pod), s.Pod.UID)
	}
	return released, err
}

// ReleaseUnowned releases a Pod whose owner does not exist, is being deleted, or does not control the Pod: the Pod was
// orphaned, or belongs to a deleted object of the same name. The cache may be outdated, so ReleaseUnowned first reads
// the owner from the API server.
func (c *Commands) ReleaseUnowned(ctx context.Context, s State) error {
	if !pods.IsTracked(s.Pod) || c.isReleased(s) {
		c.forget(s)
		return nil
	}
	owner, err := c.owner(ctx, s.owner)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading %s %s before its Pod is released: %w", c.kind, s.owner, err)
	}
	if err == nil && owner.GetDeletionTimestamp() == nil && metav1.IsControlledBy(s.Pod, owner) {
		return nil
	}
	if s, err = c.ReleasePod(ctx, s); err == nil {
		c.forget(s)
	}
	return err
}

// Release releases the Pod of an object that does not exist. pending reports whether an event of the Pod will come.
func (c *Commands) Release(ctx context.Context, key controller.Key) (pending bool, err error) {
	pod, err := c.find(ctx, key)
	if err != nil || pod == nil {
		return false, err
	}
	_, err = c.cache.Get(pod.Namespace, pod.Name)
	return pods.IsTracked(pod) && err == nil, c.ReleaseUnowned(ctx, State{Pod: pod, owner: key})
}

// Reference returns a Reference that maps a Pod with pods.TrackingFinalizer to the object that has the name of the Pod
// without the suffix. In contrast to the owner reference, the name is also there after the Pod was orphaned.
func (c *Commands) Reference() controller.Reference {
	return controller.Reference{Informer: c.Informer, Referrers: func(obj metav1.Object) []controller.Key {
		name, ok := strings.CutSuffix(obj.GetName(), c.suffix)
		if !ok || name == "" || !slices.Contains(obj.GetFinalizers(), pods.TrackingFinalizer) {
			return nil
		}
		return []controller.Key{{Namespace: obj.GetNamespace(), Name: name}}
	}}
}

// forget removes a Pod from the hidden Pods if its owner no longer needs the Pod.
func (c *Commands) forget(s State) {
	if !pods.IsTracked(s.Pod) && endingOf(s.Pod, c.container) != nil || c.isReleased(s) {
		c.hidden.Delete(s.owner)
	}
}

// isReleased reports whether this process has released a Pod that is being deleted. The cache may still have the Pod.
func (c *Commands) isReleased(s State) bool {
	return c.Tracker.IsDeleted(s.owner, releasedName(s.Pod), s.Pod.UID)
}

// releasedName returns the name under which the tracker has the release of a Pod. The name of the Pod itself stands for
// its deletion.
func releasedName(pod *corev1.Pod) string { return pod.Name + "/released" }

// atOnce is the activeDeadlineSeconds of a Pod that has to end now, which is the smallest value that the API server
// accepts.
const atOnce = 1

// outlives reports whether other containers of a Pod run although its command has ended, and nothing ends them. An
// admission webhook has added these containers. The kubelet ends a sidecar among the init containers by itself.
func outlives(pod *corev1.Pod, container string) bool {
	phase, limit := pod.Status.Phase, pod.Spec.ActiveDeadlineSeconds
	ended := phase == corev1.PodSucceeded || phase == corev1.PodFailed || pod.DeletionTimestamp != nil
	if ended || limit != nil && *limit <= atOnce || pods.FirstEnd(pods.StatusOf(pod, container)) == nil {
		return false
	}
	running := func(s corev1.ContainerStatus) bool { return s.State.Terminated == nil }
	return slices.ContainsFunc(pod.Status.ContainerStatuses, running)
}
