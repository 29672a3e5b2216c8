package at

import (
	"context"
	"fmt"
	"maps"
	"math"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

// start creates the Pod of a Running At. run calls it if the cache lacks the Pod.
func (r *reconciler) start(ctx context.Context, at *v1.At) (controller.Result, error) {
	now := r.clock.Now()
	if left, limited := remaining(at, now); limited && left <= 0 {
		return r.startLate(ctx, at)
	}
	// An At is Running before its scheduled time only if a user edited its status. The command must not run
	// before that time.
	if due := startsFrom(at); now.Before(due) {
		return controller.Result{RequeueAfter: due.Sub(now)}, nil
	}
	if last, ok := r.refusals.Recent(at.UID, "", at.Generation); ok {
		return controller.Result{}, r.refused(at, last)
	}
	if err := r.confirm(ctx, at); err != nil {
		return controller.Result{}, err
	}
	setRunning(at, now)
	desired := desiredPod(at, r.image)
	if left, limited := remaining(at, now); limited {
		desired.Spec.ActiveDeadlineSeconds = podDeadline(left)
	}
	pod, err := r.pods.Pods(at.Namespace).Create(ctx, desired, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return r.taken(ctx, at)
	}
	if pods.IsRefusal(err) {
		return controller.Result{}, r.refused(at, r.refusals.Note(at.UID, "", at.Generation, err, pods.ShortestRefusal, pods.LongestRefusal))
	}
	if err != nil {
		return controller.Result{}, fmt.Errorf("creating Pod %s/%s: %w", at.Namespace, podName(at), err)
	}
	r.tracker.Wrote(keyOf(at), "Pod", r.commands.Cache, pod.ResourceVersion)
	left, limited := remaining(at, now)
	if !pods.IsSelected(pod) && (!limited || left > lookAgain) {
		left, limited = lookAgain, true // an admission policy has changed the label: no event of the Pod will come
	}
	if limited {
		return controller.Result{RequeueAfter: left}, nil
	}
	return controller.Result{}, nil
}

// startLate fails an At whose activeDeadlineSeconds have passed and whose Pod the cache lacks. A Pod that exists although
// the cache lacks it decides instead.
func (r *reconciler) startLate(ctx context.Context, at *v1.At) (controller.Result, error) {
	pod, err := r.pods.Pods(at.Namespace).Get(ctx, podName(at), metav1.GetOptions{})
	switch {
	case err == nil && metav1.IsControlledBy(pod, at):
		return r.uncached(ctx, at, pod)
	case err != nil && !apierrors.IsNotFound(err):
		return controller.Result{}, fmt.Errorf("reading Pod %s/%s, which the cache lacks: %w", at.Namespace, podName(at), err)
	}
	setFailed(at, deadlineNote(at, ""), r.clock.Now())
	return controller.Result{}, nil
}

// podDeadline returns the time that is left for a command as activeDeadlineSeconds of its Pod. The kubelet then ends
// the command, and the Pod and its log stay.
func podDeadline(left time.Duration) *int64 {
	const most = math.MaxInt32 // the limit of the API server
	return ptr.To(min(int64((left-1)/time.Second)+1, most))
}

// startsFrom returns the earliest time at which the Pod of a Running At is created: the scheduled time in
// the status, even if spec.schedule has changed since. The status lacks this time only if another client
// wrote the status, for example a controller of v1alpha1.
func startsFrom(at *v1.At) time.Time {
	if due := at.Status.ScheduledTime; due != nil {
		return due.Time
	}
	due, err := scheduledTime(at)
	if err != nil {
		return time.Time{} // the At is Running already, so its Pod may be created now
	}
	return due
}

// confirm checks that the cached version of the At is the version in the API server, and returns an error
// otherwise. A POST has no precondition on another object, and a Pod for an At that another process has
// finished would run the command a second time. A process that has just stored the phase Running skips the
// check, so usually confirm sends no GET.
func (r *reconciler) confirm(ctx context.Context, at *v1.At) error {
	if r.starts.take(at, r.clock.Now()) {
		return nil
	}
	live, err := r.ats.Ats(at.Namespace).Get(ctx, at.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return controller.AwaitDeletion()
	}
	if err == nil && live.ResourceVersion != at.ResourceVersion {
		return apierrors.NewConflict(v1.Resource("ats"), at.Name, fmt.Errorf("the cache is outdated"))
	}
	if err != nil {
		return fmt.Errorf("reading At %s/%s before its Pod is created: %w", at.Namespace, at.Name, err)
	}
	return nil
}

// taken handles a Pod that exists although the cache lacks it. It returns an error for a Pod that the At does not control.
func (r *reconciler) taken(ctx context.Context, at *v1.At) (controller.Result, error) {
	pod, err := r.pods.Pods(at.Namespace).Get(ctx, podName(at), metav1.GetOptions{})
	if err != nil {
		return controller.Result{}, fmt.Errorf("reading Pod %s/%s, which already exists: %w", at.Namespace, podName(at), err)
	}
	if metav1.IsControlledBy(pod, at) {
		return r.uncached(ctx, at, pod)
	}
	if err := r.commands.ReleaseUnowned(ctx, keyOf(at), pod); err != nil {
		return controller.Result{}, err
	}
	return controller.Result{}, foreignPod(at, pod)
}

// uncached handles a Pod of an At that the cache lacks. The cache was outdated, or a user removed the label by which the
// cache selects Pods: uncached first restores the label, because a Pod is released from the cache. It then updates the
// status from the Pod.
func (r *reconciler) uncached(ctx context.Context, at *v1.At, pod *corev1.Pod) (controller.Result, error) {
	pod, err := r.relabel(ctx, at, pod)
	if err != nil {
		return controller.Result{}, err
	}
	result, err := r.watch(ctx, at, pod)
	if at.Status.Phase != v1.AtDone && (result.RequeueAfter == 0 || result.RequeueAfter > lookAgain) {
		result.RequeueAfter = lookAgain
	}
	return result, err
}

// relabel restores the labels with which a Pod was created, so that the cache selects the Pod, and returns the Pod.
func (r *reconciler) relabel(ctx context.Context, at *v1.At, pod *corev1.Pod) (*corev1.Pod, error) {
	return r.commands.Relabel(ctx, keyOf(at), pod, desiredPod(at, r.image).Labels)
}

// foreignPod returns the error for a Pod that has the name of the At's Pod, but is not controlled by the
// At; see children.Owner.Taken.
func foreignPod(at *v1.At, pod *corev1.Pod) error {
	return children.Owner{Object: at, Kind: v1.SchemeGroupVersion.WithKind("At")}.Taken("Pod", pod)
}

// starts records the Ats that this process has set to Running and whose Pod it has not tried to create yet.
// During the time fresh after the start, confirm does not check these Ats. After that, another process may
// have led in between.
type starts struct {
	mu    sync.Mutex
	times map[types.UID]metav1.Time
}

// fresh is how long after a recorded start confirm does not check the At. It is long enough for many Ats
// with the same schedule.
const fresh = time.Minute

func newStarts() *starts { return &starts{times: map[types.UID]metav1.Time{}} }

func (s *starts) begin(at *v1.At) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := *at.Status.StartTime
	maps.DeleteFunc(s.times, func(_ types.UID, start metav1.Time) bool { return now.Sub(start.Time) > fresh })
	s.times[at.UID] = now
}

// take reports whether this process recorded the start of at no longer than the time fresh ago, and no Pod
// of at has failed since. take forgets the start.
func (s *starts) take(at *v1.At, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	start, ok := s.times[at.UID]
	delete(s.times, at.UID)
	return ok && at.Status.Failed == 0 && at.Status.StartTime != nil && start.Equal(at.Status.StartTime) && now.Sub(start.Time) <= fresh
}
