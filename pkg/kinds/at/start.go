package at

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
	"windlass.dev/windlass/pkg/kinds/internal/runonce"
)

// start creates the Pod of a Running At. If the Pod exists although the cache lacks it, start uses this Pod.
func (r *reconciler) start(ctx context.Context, at *v1.At) (controller.Result, error) {
	pod, err := r.commands.Create(ctx, at, at.Generation, func() (*corev1.Pod, error) {
		desired, err := desiredPod(at, r.image)
		if err != nil {
			left, _ := remaining(at, r.clock.Now())
			return nil, controller.Stalled(err, left)
		}
		if err := r.confirm(ctx, at); err != nil {
			return nil, err
		}
		now := r.clock.Now()
		setRunning(at, now)
		if left, limited := remaining(at, now); limited {
			desired.Spec.ActiveDeadlineSeconds = podDeadline(left)
		}
		return desired, nil
	})
	if err != nil {
		return controller.Result{}, r.reject(at, err)
	}
	return r.run(ctx, at, pod)
}

// reject sets the conditions of an At whose Pod the API server rejected, and returns the error of the reconcile. The
// phase stays Running, because phases only move forward. reject returns other errors unchanged.
func (r *reconciler) reject(at *v1.At, err error) error {
	last := (*runonce.Rejection)(nil)
	if !errors.As(err, &last) {
		return err
	}
	if left, limited := remaining(at, r.clock.Now()); limited {
		last.After = min(last.After, left)
	}
	advice := "" // package pods has general advice
	if pods.ViolatesPodSecurity(last.Err) && !restricted(at) {
		advice = adviceToRestrict.With()
	}
	err = pods.Rejected(podName(at), last.Err, advice, last.After)
	summarize(at, controller.StateProgressing, controller.Note{Reason: controller.ReasonOf(err), Message: err.Error()})
	return err
}

// podDeadline returns the time that is left for a command, rounded up to seconds, as activeDeadlineSeconds of its Pod.
// At this deadline, the kubelet ends the command, and the Pod and its log stay.
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

// confirm returns an error unless the cached version of the At is the version in the API server. A POST has no
// precondition on another object, and a Pod for an At that another process has finished would run the command a second
// time. A process that has just stored the phase Running skips the check, so usually confirm sends no GET.
func (r *reconciler) confirm(ctx context.Context, at *v1.At) error {
	if r.takeStart(at) {
		return nil
	}
	live, err := r.ats.Ats(at.Namespace).Get(ctx, at.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return controller.ErrDeletionNotObserved
	}
	if err == nil && live.ResourceVersion != at.ResourceVersion {
		return apierrors.NewConflict(v1.Resource("ats"), at.Name, fmt.Errorf("the cache is outdated"))
	}
	if err != nil {
		return fmt.Errorf("reading At %s/%s before its Pod is created: %w", at.Namespace, at.Name, err)
	}
	return nil
}

// fresh is how long confirm skips its check after this process has stored the start of an At. Within this time, a
// process can create the Pods of many Ats with the same schedule. After a longer time, another process may have led in
// between.
const fresh = time.Minute

// takeStart reports whether this process has stored the start of an At within the time fresh, and no Pod of the At has
// failed since. takeStart then forgets the start, so that it returns true only for the first attempt to create the Pod.
func (r *reconciler) takeStart(at *v1.At) bool {
	stored, _ := r.starts.Get(at.UID)
	r.starts.Delete(at.UID)
	start, ok := stored.(metav1.Time)
	return ok && at.Status.Failed == 0 && start.Equal(at.Status.StartTime) && r.clock.Now().Sub(start.Time) <= fresh
}
