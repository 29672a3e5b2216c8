package database

import (
	"strings"
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

// setBlocked sets the status after a reconcile that failed or waits.
func setBlocked(db *v1alpha1.Database, err error) {
	switch phase := &db.Status.Phase; {
	case controller.Degrades(db, err):
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
func setProgress(p *scope, now time.Time) time.Duration {
	v := verdictOf(p.db, p.statefulSet, p.pod, p.claim, now)
	if p.absence != nil && v.note.Reason == messageStarting.Reason {
		v.requeueAfter = p.absence.next.Sub(now)
		if p.absence.note != nil {
			v.phase, v.note = v1alpha1.DatabaseFailed, *p.absence.note
		}
	}
	p.db.Status.Phase = v.phase
	summary := v.summary(p.claim)
	if v.phase == v1alpha1.DatabaseReady {
		summary.Note = readyNote(p.db)
		if p.settling > 0 {
			summary.Progress, v.requeueAfter = ptr.To(messageApplying.Note()), p.settling
		}
	}
	summary.SetOn(p.db)
	return v.requeueAfter
}

// readyNote returns the reason and message of a Database that is Ready.
func readyNote(db *v1alpha1.Database) controller.Note {
	if pending := db.Status.PendingRestart; len(pending) > 0 {
		return messageRestartPending.Note(strings.Join(pending, ", "), db.Namespace, db.Name)
	}
	return messageAvailable.Note()
}

// verdict is the phase that a Database has because of its children, with a reason and a message.
type verdict struct {
	phase        v1alpha1.DatabasePhase
	note         controller.Note
	requeueAfter time.Duration // positive if time alone can change the verdict
}

func (v verdict) summary(claim *corev1.PersistentVolumeClaim) controller.Summary {
	s := controller.Summary{Note: v.note}
	switch v.phase {
	case v1alpha1.DatabaseReady:
		s.State = controller.StateReady
		if has := claim.Status.Capacity.Storage(); !has.IsZero() && sizeOf(claim).Cmp(*has) > 0 {
			s.Progress = ptr.To(messageGrowing.Note(has, sizeOf(claim), claim.Namespace, claim.Name))
		}
	case v1alpha1.DatabaseFailed:
		s.State = controller.StateDegraded
	}
	if v.note.Reason == pods.ReasonUnschedulable || v.note.Reason == pods.ReasonInitializing {
		s.State = controller.StateDegraded
	}
	return s
}

func verdictOf(
	db *v1alpha1.Database, s *appsv1.StatefulSet, pod *corev1.Pod, claim *corev1.PersistentVolumeClaim, now time.Time,
) verdict {
	starting := verdict{phase: v1alpha1.DatabaseDeploying, note: messageStarting.Note(db.Namespace, db.Name, db.Name+"-0")}
	failed := func(note controller.Note) verdict { return verdict{phase: v1alpha1.DatabaseFailed, note: note} }
	switch {
	case claim.Status.Phase == corev1.ClaimLost:
		return failed(messageVolumeLost.Note(claim.Name, claim.Namespace))
	case isUp(s):
		return verdict{phase: v1alpha1.DatabaseReady, note: messageAvailable.Note()}
	case pod == nil:
		return starting
	}
	status := pods.StatusOf(pod, containerName)
	if blocked := pods.Blocked(status); blocked != nil {
		return failed(notStarting(pod, blocked))
	}
	if ended := status.LastTerminationState.Terminated; ended != nil && isCrashing(db, status) {
		cause := ended.Message // of server.sh, without secrets
		if cause == "" {
			cause = messageEnded.With(ended.ExitCode)
		}
		return failed(messageCrashing.Note(cause, pod.Namespace, pod.Name))
	}
	problem, requeueAfter := pods.Injected(pod, containerName, now)
	if problem == nil && requeueAfter == 0 {
		problem, requeueAfter = pods.Unschedulable(pod, now)
	}
	if problem == nil {
		starting.requeueAfter = requeueAfter
		return starting
	}
	note := notStarting(pod, problem)
	note.Message = problem.WithWords(note.Message, readyMessage(db))
	v := verdict{phase: v1alpha1.DatabaseFailed, note: note, requeueAfter: requeueAfter}
	if problem.Reason == pods.ReasonUnschedulable || problem.Reason == pods.ReasonInitializing {
		v.phase = v1alpha1.DatabaseDeploying
	}
	return v
}

// notStarting returns the reason and message about a Pod that does not start, or that is not ready although PostgreSQL
// runs.
func notStarting(pod *corev1.Pod, why *pods.Problem) controller.Note {
	message := messageNotStarting
	if pods.StatusOf(pod, containerName).State.Running != nil {
		message = messagePodNotReady
	}
	return controller.Note{Reason: why.Reason, Message: message.With(pod.Name, why.Message, pod.Namespace)}
}

// readyMessage returns the message of the condition Ready, or "".
func readyMessage(db *v1alpha1.Database) string {
	return ptr.Deref(conditions.Find(db.Status.Conditions, conditions.Ready), metav1.Condition{}).Message
}

// isUp reports whether the Pod of the newest template is ready.
func isUp(s *appsv1.StatefulSet) bool {
	return s.Status.ObservedGeneration >= s.Generation && s.Status.UpdatedReplicas > 0 && s.Status.ReadyReplicas > 0
}

// isStuck reports whether PostgreSQL in a Pod cannot start, for example because of a container that others have
// added, or crashes again and again.
func isStuck(db *v1alpha1.Database, pod *corev1.Pod, now time.Time) bool {
	status := pods.StatusOf(pod, containerName)
	if status.State.Running == nil {
		if injected, _ := pods.Injected(pod, containerName, now); injected != nil {
			return true
		}
	}
	return pods.BlockedStart(status) != "" || status.LastTerminationState.Terminated != nil && isCrashing(db, status)
}

// isCrashing reports whether a container crashes again and again. While it runs between two crashes, it
// counts as crashing if the condition Ready of the Database still has pods.ReasonCrashing because of this container.
func isCrashing(db *v1alpha1.Database, status corev1.ContainerStatus) bool {
	if waiting := status.State.Waiting; waiting != nil {
		return waiting.Reason == pods.ReasonCrashing
	}
	ready := ptr.Deref(conditions.Find(db.Status.Conditions, conditions.Ready), metav1.Condition{})
	return ready.Reason == pods.ReasonCrashing && !strings.Contains(ready.Message, pods.InjectedWords)
}
