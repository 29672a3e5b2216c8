package database

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

// Unlike a Deployment, a StatefulSet has no condition that says why its Pod is not created. The operator therefore
// creates a Pod that stays missing as a dry run, whose error says why. It repeats the dry run with backoff. After the
// API server has accepted the Pod, the operator changes an annotation of the StatefulSet. The StatefulSet controller
// then creates the Pod at once, instead of after a backoff of up to 17 minutes.

const (
	// missingGrace is how long the Pod may be missing before the operator tries to find the cause. The StatefulSet
	// controller creates a Pod within milliseconds.
	missingGrace = 10 * time.Second
	// retriedAnnotation on a StatefulSet has the time at which the operator last made the StatefulSet controller
	// create a missing Pod.
	retriedAnnotation = "windlass.dev/pod-retried"
)

// absence is what the operator knows about a missing Pod.
type absence struct {
	revision string // the revision of the template of the Pod
	since    time.Time
	next     time.Time // the time of the next dry run
	// note says why the Pod is missing. It is nil if the operator does not know.
	note *controller.Note
	// accepted is true if the API server did not reject the last dry run.
	accepted bool
}

// forgetAfter is how long the operator remembers the missing Pod of a Database that is not reconciled any more. The
// cache keeps replaced entries for this time too, so a longer time takes more memory.
const forgetAfter = time.Hour

// absenceOf returns the known absence of the Pod of a Database. If none is known for the revision, an absence begins
// now.
func (r *reconciler) absenceOf(of types.UID, revision string, now time.Time) absence {
	known, _ := r.absences.Get(of)
	a, ok := known.(absence)
	if !ok || a.revision != revision {
		a = absence{revision: revision, since: now, next: now.Add(missingGrace)}
		r.absences.Set(of, a, forgetAfter)
	}
	return a
}

// isAwaited reports whether the StatefulSet controller has observed a StatefulSet, but has created no Pod for it.
func isAwaited(s *appsv1.StatefulSet) bool {
	observed := s.Status.UpdateRevision != "" && s.Status.ObservedGeneration >= s.Generation
	return observed && s.Status.Replicas == 0 && s.DeletionTimestamp == nil
}

// missing sets p.absence if the Pod is missing, and sends a dry run to find the cause if one is due.
func (r *reconciler) missing(ctx context.Context, p *scope) error {
	if p.pod != nil || !isAwaited(p.statefulSet) {
		r.absences.Delete(p.db.UID)
		return nil
	}
	now := r.clock.Now()
	a := r.absenceOf(p.db.UID, p.statefulSet.Status.UpdateRevision, now)
	p.absence = &a
	if now.Before(a.next) {
		return nil
	}
	pod := podOf(p.statefulSet)
	rejection, taken, err := r.tryPod(ctx, pod)
	if err != nil {
		return err
	}
	switch {
	case rejection != nil:
		a.note = rejection
	case a.accepted && taken:
		a.note = ptr.To(messagePodTaken.Note(pod.Name, p.statefulSet.Name, p.db.Namespace))
	case a.accepted:
		a.note = ptr.To(messagePodMissing.Note(p.statefulSet.Name, pod.Name, p.db.Namespace))
	default:
		a.note = nil // the StatefulSet controller is about to create the Pod
	}
	a.accepted = rejection == nil
	a.next = now.Add(min(max(now.Sub(a.since), pods.ShortestRejection), pods.LongestRejection))
	r.absences.Set(p.db.UID, a, forgetAfter)
	if a.accepted && !taken {
		return r.retryPod(ctx, p, now)
	}
	return nil
}

// tryPod creates a Pod as a dry run. It returns why the API server rejects the Pod, or nil if the API server accepts
// the Pod or does not say why. taken is true if another Pod has the name.
func (r *reconciler) tryPod(ctx context.Context, pod *corev1.Pod) (rejection *controller.Note, taken bool, err error) {
	_, err = r.pods.Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	switch {
	case err == nil, pods.IsUndecided(err):
		return nil, false, nil
	case apierrors.IsAlreadyExists(err):
		return nil, true, nil
	case pods.IsRejection(err), apierrors.IsInvalid(err):
		return ptr.To(pods.RejectedNote(pod.Name, err)), false, nil
	}
	return nil, false, fmt.Errorf("checking whether the API server accepts Pod %s/%s: %w", pod.Namespace, pod.Name, err)
}

// podOf returns the Pod of a StatefulSet as the StatefulSet controller creates it (k8s.io/kubernetes,
// pkg/controller/statefulset), but without blockOwnerDeletion in the owner reference. An admission plugin can require
// permissions for this field that the operator does not have.
func podOf(s *appsv1.StatefulSet) *corev1.Pod {
	template := s.Spec.Template.DeepCopy()
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Namespace, pod.Name = s.Namespace, s.Name+"-0"
	owner := metav1.NewControllerRef(s, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))
	owner.BlockOwnerDeletion = nil
	pod.OwnerReferences = []metav1.OwnerReference{*owner}
	pod.Spec.Hostname, pod.Spec.Subdomain = pod.Name, s.Spec.ServiceName
	for label, value := range map[string]string{
		appsv1.StatefulSetPodNameLabel:        pod.Name,
		appsv1.PodIndexLabel:                  "0",
		appsv1.ControllerRevisionHashLabelKey: s.Status.UpdateRevision,
	} {
		metav1.SetMetaDataLabel(&pod.ObjectMeta, label, value)
	}
	return pod
}

// retryPod changes retriedAnnotation, so that the StatefulSet controller reconciles the StatefulSet, and creates the
// missing Pod at once.
func (r *reconciler) retryPod(ctx context.Context, p *scope, now time.Time) (err error) {
	if p.template == nil { // the StatefulSet stays as it is
		return nil
	}
	sets := *r.statefulSet.Type()
	sets.Keep = func(want, live *appsv1.StatefulSet) {
		keepTemplate(p.db, want, live)
		metav1.SetMetaDataAnnotation(&want.ObjectMeta, retriedAnnotation, now.UTC().Format(time.RFC3339))
	}
	p.statefulSet, err = sets.Update(ctx, p.Owner, desiredStatefulSet(p.db, p.template))
	return err
}

// keepRetried keeps the annotation that retryPod has set.
func keepRetried(want, live *appsv1.StatefulSet) {
	if at := live.Annotations[retriedAnnotation]; at != "" {
		metav1.SetMetaDataAnnotation(&want.ObjectMeta, retriedAnnotation, at)
	}
}
