package database

import (
	"cmp"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/conditions"
	"windlass.dev/windlass/pkg/kinds/internal/claims"
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

// setProgress sets the status from the children. It returns the time until the status can change without an event, or
// 0.
func setProgress(p *scope, now time.Time) time.Duration {
	summary, requeueAfter := summaryOf(p.db, p.statefulSet, p.pod, p.claim, now)
	switch {
	case p.restore != nil && (summary.State == controller.StateReady || summary.Reason == messageStarting.Reason):
		summary = controller.Summary{Note: messageRestoring.Note(p.restore.from, p.db.Namespace, p.statefulSet.Name+"-0")}
	case summary.State == controller.StateReady:
		p.addVolume(&summary)
	}
	if p.absence != nil && summary.Reason == messageStarting.Reason {
		requeueAfter = p.absence.next.Sub(now)
		if p.absence.note != nil {
			summary = degraded(*p.absence.note)
		}
	}
	if p.settling > 0 && summary.State == controller.StateReady {
		summary.Progress, requeueAfter = ptr.To(messageApplying.Note()), p.settling
	}
	p.db.Status.Phase = phaseOf(summary)
	summary.SetOn(p.db)
	return requeueAfter
}

// readyNote returns the reason and message of a Database that is Ready.
func readyNote(db *v1alpha1.Database) controller.Note {
	if pending := db.Status.PendingRestart; len(pending) > 0 {
		return messageRestartPending.Note(strings.Join(pending, ", "), db.Namespace, db.Name)
	}
	return messageAvailable.Note()
}

// growth returns the reason and message of a volume that grows, or nil.
func growth(claim *corev1.PersistentVolumeClaim) *controller.Note {
	has := claim.Status.Capacity.Storage()
	if has.IsZero() || claims.Requested(claim).Cmp(*has) <= 0 {
		return nil
	}
	return ptr.To(messageGrowing.Note(has, claims.Requested(claim), claim.Namespace, claim.Name))
}

// phaseOf returns the phase of a Database with this Summary. A Database whose Pod cannot be scheduled is Deploying,
// because a node may be added. A Database whose Pod waits for an init container is Deploying too, because the init
// container may end.
func phaseOf(s controller.Summary) v1alpha1.DatabasePhase {
	switch {
	case s.State == controller.StateReady:
		return v1alpha1.DatabaseReady
	case s.State == controller.StateProgressing, s.Reason == pods.ReasonUnschedulable, s.Reason == pods.ReasonInitializing:
		return v1alpha1.DatabaseDeploying
	default:
		return v1alpha1.DatabaseFailed
	}
}

func degraded(note controller.Note) controller.Summary {
	return controller.Summary{State: controller.StateDegraded, Note: note}
}

// summaryOf returns the summary of a Database from its children. requeueAfter is positive if time alone can change the
// summary.
func summaryOf(
	db *v1alpha1.Database, s *appsv1.StatefulSet, pod *corev1.Pod, claim *corev1.PersistentVolumeClaim, now time.Time,
) (summary controller.Summary, requeueAfter time.Duration) {
	starting := controller.Summary{Note: messageStarting.Note(db.Namespace, db.Name, db.Name+"-0")}
	switch {
	case claim.Status.Phase == corev1.ClaimLost:
		if db.Spec.Backup != nil {
			return degraded(messageVolumeLostWithBackup.Note(claim.Name, db.Namespace, db.Name)), 0
		}
		return degraded(messageVolumeLost.Note(claim.Name, claim.Namespace)), 0
	case isUp(s):
		return controller.Summary{State: controller.StateReady, Note: readyNote(db), Progress: growth(claim)}, 0
	case pod == nil, pod.DeletionTimestamp != nil, s.Status.ObservedGeneration < s.Generation:
		return starting, 0 // a Pod that the StatefulSet controller is about to replace does not matter any more
	}
	status := pods.StatusOf(pod, containerName)
	if blocked := pods.Blocked(status); blocked != nil {
		return degraded(notStarting(pod, blocked)), 0
	}
	if ended := status.LastTerminationState.Terminated; ended != nil && isCrashing(db, status) {
		cause := cmp.Or(ended.Message, messageEnded.With(ended.ExitCode)) // the message of server.sh has no secrets
		return degraded(messageCrashing.Note(cause, pod.Namespace, pod.Name)), 0
	}
	problem, requeueAfter := pods.Injected(pod, containerName, now)
	if problem == nil && requeueAfter == 0 {
		problem, requeueAfter = pods.Unschedulable(pod, now)
	}
	if problem == nil {
		return starting, requeueAfter
	}
	note := notStarting(pod, problem)
	note.Message = problem.WithWords(note.Message, db.Status.Conditions)
	return degraded(note), requeueAfter
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

// isUp reports whether the Pod of the newest template is ready.
func isUp(s *appsv1.StatefulSet) bool {
	return s.Status.ObservedGeneration >= s.Generation && s.Status.UpdatedReplicas > 0 && s.Status.ReadyReplicas > 0
}

// isStuck reports whether PostgreSQL in a Pod cannot start, for example because of a container that another client has
// added, or crashes repeatedly.
func isStuck(db *v1alpha1.Database, pod *corev1.Pod, now time.Time) bool {
	status := pods.StatusOf(pod, containerName)
	if status.State.Running == nil {
		if injected, _ := pods.Injected(pod, containerName, now); injected != nil {
			return true
		}
	}
	return pods.BlockedStart(status) != "" || status.LastTerminationState.Terminated != nil && isCrashing(db, status)
}

// isCrashing reports whether a container crashes repeatedly. A container that runs between two crashes counts as
// crashing if the condition Ready of the Database still has pods.ReasonCrashing because of this container.
func isCrashing(db *v1alpha1.Database, status corev1.ContainerStatus) bool {
	if waiting := status.State.Waiting; waiting != nil {
		return waiting.Reason == pods.ReasonCrashing
	}
	ready := ptr.Deref(conditions.Find(db.Status.Conditions, conditions.Ready), metav1.Condition{})
	return ready.Reason == pods.ReasonCrashing && !strings.Contains(ready.Message, pods.InjectedWords)
}
