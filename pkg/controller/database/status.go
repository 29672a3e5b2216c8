package database

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/internal/conditions"
	"windlass.dev/windlass/pkg/controller/internal/pods"
)

// Reasons of conditions. Of a container that does not start they are the kubelet's.
const (
	reasonInvalidPassword = "InvalidPassword"
	reasonCannotGrow      = "StorageCannotGrow"
	reasonOtherClass      = "StorageClassMismatch"
	reasonVolumeLost      = "VolumeLost"
	reasonUnschedulable   = corev1.PodReasonUnschedulable
	reasonCrashing        = "CrashLoopBackOff"
	reasonStarting        = "Starting"
	reasonGrowing         = "StorageGrowing"
	reasonAvailable       = "Available"
)

// setBlocked is for a pass that could not do all.
func setBlocked(db *v1alpha1.Database, err error) {
	switch phase := &db.Status.Phase; {
	case controller.Degrades(err):
		*phase = v1alpha1.DatabaseFailed
	case *phase == "":
		*phase = v1alpha1.DatabasePending
	case *phase != v1alpha1.DatabasePending:
		*phase = v1alpha1.DatabaseDeploying
	}
}

// setProgress says how far PostgreSQL has come.
func setProgress(db *v1alpha1.Database, s *appsv1.StatefulSet, pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) {
	list := &db.Status.Conditions
	v := verdictOf(db, s, pod, claim)
	db.Status.Phase = v.phase
	switch v.phase {
	case v1alpha1.DatabaseReady:
		conditions.True(list, conditions.Ready, v.reason, v.message)
		conditions.False(list, conditions.Progressing, v.reason, v.message)
		if has := claim.Status.Capacity.Storage(); sizeOf(claim).Cmp(*has) > 0 {
			conditions.True(list, conditions.Progressing, reasonGrowing,
				fmt.Sprintf("The volume grows from %s to %s; see `kubectl describe pvc %s`.", has, sizeOf(claim), claim.Name))
		}
	case v1alpha1.DatabaseFailed:
		conditions.False(list, conditions.Ready, v.reason, v.message)
		conditions.True(list, conditions.Degraded, v.reason, v.message)
		conditions.True(list, conditions.Progressing, v.reason, v.message)
	default:
		conditions.False(list, conditions.Ready, v.reason, v.message)
		conditions.True(list, conditions.Progressing, v.reason, v.message)
	}
}

// verdict is what the children come to.
type verdict struct {
	phase           v1alpha1.DatabasePhase
	reason, message string
}

func verdictOf(db *v1alpha1.Database, s *appsv1.StatefulSet, pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) verdict {
	if claim.Status.Phase == corev1.ClaimLost {
		return verdict{v1alpha1.DatabaseFailed, reasonVolumeLost, fmt.Sprintf("The volume behind claim %s is gone; see `kubectl describe pvc %s`.", claim.Name, claim.Name)}
	}
	if isUp(s) {
		return verdict{v1alpha1.DatabaseReady, reasonAvailable, "PostgreSQL takes connections."}
	}
	if pod == nil {
		return verdict{v1alpha1.DatabaseDeploying, reasonStarting, fmt.Sprintf("PostgreSQL has no Pod yet; if that lasts, see `kubectl describe statefulset %s`.", s.Name)}
	}
	status := pods.StatusOf(pod, containerName)
	if reason := pods.BlockedStart(status); reason != "" {
		return verdict{v1alpha1.DatabaseFailed, reason, fmt.Sprintf("The container does not start; see `kubectl describe pod %s`.", pod.Name)}
	}
	if ended := status.LastTerminationState.Terminated; ended != nil && isCrashing(db, status) {
		message := ended.Message // of the start script, which says nothing secret
		if message == "" {
			message = fmt.Sprintf("PostgreSQL ended with exit code %d.", ended.ExitCode)
		}
		return verdict{v1alpha1.DatabaseFailed, reasonCrashing, fmt.Sprintf("%s See `kubectl logs %s --previous`.", message, pod.Name)}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == reasonUnschedulable {
			return verdict{v1alpha1.DatabaseDeploying, reasonUnschedulable, c.Message}
		}
	}
	return verdict{v1alpha1.DatabaseDeploying, reasonStarting, "PostgreSQL is being started."}
}

// isUp tells whether the Pod of the newest template is ready.
func isUp(s *appsv1.StatefulSet) bool {
	return s.Status.ObservedGeneration >= s.Generation && s.Status.UpdatedReplicas > 0 && s.Status.ReadyReplicas > 0
}

// isCrashing tells whether a container ends again and again. Between two ends it is
// taken to do so still, until it is ready.
func isCrashing(db *v1alpha1.Database, status corev1.ContainerStatus) bool {
	if waiting := status.State.Waiting; waiting != nil {
		return waiting.Reason == reasonCrashing
	}
	return ptr.Deref(conditions.Find(db.Status.Conditions, conditions.Ready), metav1.Condition{}).Reason == reasonCrashing
}
