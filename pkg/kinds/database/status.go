package database

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/conditions"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

// Reasons of conditions. For a container that cannot start, the reason is the reason that the kubelet
// reports.
const (
	reasonInvalidPassword = "InvalidPassword"
	reasonCannotGrow      = "StorageCannotGrow"
	reasonOtherClass      = "StorageClassMismatch"
	reasonVolumeLost      = "VolumeLost"
	reasonVolumeDeleted   = "VolumeDeleted"
	reasonCrashing        = pods.ReasonCrashing
	reasonStarting        = "Starting"
	reasonGrowing         = "StorageGrowing"
	reasonAvailable       = "Available"
)

// setBlocked sets the status after a reconcile that failed or waits.
func setBlocked(db *v1alpha1.Database, err error) {
	switch phase := &db.Status.Phase; {
	case controller.Degrades(err):
		*phase = v1alpha1.DatabaseFailed
	case *phase == "":
		*phase = v1alpha1.DatabasePending
	case *phase != v1alpha1.DatabasePending:
		*phase = v1alpha1.DatabaseDeploying
	}
	controller.Blocked(err).SetOn(db)
}

// setProgress sets the status from the children. It returns the time after which the status can change
// without an event, or 0.
func setProgress(db *v1alpha1.Database, s *appsv1.StatefulSet, pod *corev1.Pod, claim *corev1.PersistentVolumeClaim, now time.Time) time.Duration {
	v := verdictOf(db, s, pod, claim, now)
	db.Status.Phase = v.phase
	v.summary(claim).SetOn(db)
	return v.requeueAfter
}

// verdict is the phase that a Database has because of its children, with a reason and a message.
type verdict struct {
	phase           v1alpha1.DatabasePhase
	reason, message string
	requeueAfter    time.Duration // positive if time alone can change the verdict
}

func (v verdict) summary(claim *corev1.PersistentVolumeClaim) controller.Summary {
	s := controller.Summary{Note: controller.Note{Reason: v.reason, Message: v.message}}
	switch v.phase {
	case v1alpha1.DatabaseReady:
		s.State = controller.StateReady
		if has := claim.Status.Capacity.Storage(); !has.IsZero() && sizeOf(claim).Cmp(*has) > 0 {
			s.Progress = &controller.Note{Reason: reasonGrowing, Message: fmt.Sprintf(
				"The volume grows from %s to %s; see `kubectl describe pvc -n %s %s`.", has, sizeOf(claim), claim.Namespace, claim.Name)}
		}
	case v1alpha1.DatabaseFailed:
		s.State = controller.StateDegraded
	}
	if v.reason == pods.ReasonUnschedulable {
		s.State = controller.StateDegraded
	}
	return s
}

func verdictOf(db *v1alpha1.Database, s *appsv1.StatefulSet, pod *corev1.Pod, claim *corev1.PersistentVolumeClaim, now time.Time) verdict {
	starting := verdict{phase: v1alpha1.DatabaseDeploying, reason: reasonStarting, message: fmt.Sprintf(
		"PostgreSQL is starting. If it does not become ready, see `kubectl describe -n %s sts/%s pod/%s-0 pvc/%s`.", db.Namespace, db.Name, db.Name, db.Name)}
	failed := func(reason, format string, args ...any) verdict {
		return verdict{phase: v1alpha1.DatabaseFailed, reason: reason, message: fmt.Sprintf(format, args...)}
	}
	switch {
	case claim.Status.Phase == corev1.ClaimLost:
		return failed(reasonVolumeLost, "The volume of PersistentVolumeClaim %s is lost; see `kubectl describe pvc -n %s %s`.", claim.Name, claim.Namespace, claim.Name)
	case isUp(s):
		return verdict{phase: v1alpha1.DatabaseReady, reason: reasonAvailable, message: "PostgreSQL takes connections."}
	case pod == nil:
		return starting
	}
	status := pods.StatusOf(pod, containerName)
	if blocked := pods.Blocked(status); blocked != nil {
		return failed(blocked.Reason, "Pod %s does not start: %s. See `kubectl describe pod -n %s %s`.", pod.Name, blocked.Message, pod.Namespace, pod.Name)
	}
	if ended := status.LastTerminationState.Terminated; ended != nil && isCrashing(db, status) {
		message := ended.Message // of the start script, without secrets
		if message == "" {
			message = fmt.Sprintf("PostgreSQL ended with exit code %d.", ended.ExitCode)
		}
		return failed(reasonCrashing, "%s See `kubectl logs -n %s %s --previous`.", message, pod.Namespace, pod.Name)
	}
	problem, requeueAfter := pods.Unschedulable(pod, now)
	if problem != nil {
		return verdict{phase: v1alpha1.DatabaseDeploying, reason: problem.Reason, message: problem.WithWords(
			fmt.Sprintf("Pod %s does not start: %s. See `kubectl describe pod -n %s %s`.", pod.Name, problem.Message, pod.Namespace, pod.Name), readyMessage(db))}
	}
	starting.requeueAfter = requeueAfter
	return starting
}

// readyMessage returns the message of the condition Ready, or "".
func readyMessage(db *v1alpha1.Database) string {
	return ptr.Deref(conditions.Find(db.Status.Conditions, conditions.Ready), metav1.Condition{}).Message
}

// isUp reports whether the Pod of the newest template is ready.
func isUp(s *appsv1.StatefulSet) bool {
	return s.Status.ObservedGeneration >= s.Generation && s.Status.UpdatedReplicas > 0 && s.Status.ReadyReplicas > 0
}

// isStuck reports whether a container cannot start, or crashes again and again.
func isStuck(db *v1alpha1.Database, status corev1.ContainerStatus) bool {
	return pods.BlockedStart(status) != "" || status.LastTerminationState.Terminated != nil && isCrashing(db, status)
}

// isCrashing reports whether a container crashes again and again. While it runs between two crashes, it
// counts as crashing if the condition Ready of the Database still has reasonCrashing.
func isCrashing(db *v1alpha1.Database, status corev1.ContainerStatus) bool {
	if waiting := status.State.Waiting; waiting != nil {
		return waiting.Reason == reasonCrashing
	}
	return ptr.Deref(conditions.Find(db.Status.Conditions, conditions.Ready), metav1.Condition{}).Reason == reasonCrashing
}
