// Package rollout summarizes the rollout of a Deployment.
package rollout

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/controller"
)

// Reasons of a Deployment's conditions (k8s.io/kubernetes, pkg/controller/deployment/util).
const (
	rolledOut        = "NewReplicaSetAvailable"
	paused           = "DeploymentPaused"
	deadlineExceeded = "ProgressDeadlineExceeded"
)

// Summarize returns the Summary of a Deployment by the rules of kubectl rollout status. The state is Ready once the
// newest Pods are rolled out and at least the given number of Pods is available. It is Stalled after the progress
// deadline of the Deployment, Degraded if Pods cannot be created, and Progressing otherwise.
func Summarize(d *appsv1.Deployment, available int32) controller.Summary {
	rolling := summary(controller.StateProgressing, messageRollingOut.Note())
	if d.Status.ObservedGeneration < d.Generation {
		return rolling
	}
	progressing, failure := condition(d, appsv1.DeploymentProgressing), condition(d, appsv1.DeploymentReplicaFailure)
	// A Deployment without a progress deadline has no condition Progressing. The condition Progressing of a paused
	// Deployment says nothing about the rollout.
	settled := progressing.Reason == "" || progressing.Reason == paused || progressing.Reason == rolledOut
	replaced := settled && d.Status.UpdatedReplicas >= d.Status.Replicas && d.Status.UpdatedReplicas >= available
	switch {
	case progressing.Status == corev1.ConditionFalse && progressing.Reason == deadlineExceeded:
		return summary(controller.StateStalled, messageDeadline.Note(progressing.Message))
	case replaced && d.Status.AvailableReplicas >= available:
		return summary(controller.StateReady, messageAvailable.Note())
	case failure.Status == corev1.ConditionTrue:
		return summary(controller.StateDegraded, controller.Note{
			Reason: failure.Reason, Message: messageFailure.With(failure.Message),
		})
	case replaced:
		return summary(controller.StateProgressing,
			messageUnready.Note(d.Namespace, metav1.FormatLabelSelector(d.Spec.Selector)))
	case d.Spec.Paused:
		return summary(controller.StateProgressing, messagePaused.Note(d.Name, d.Namespace))
	default:
		return rolling
	}
}

func summary(state controller.State, note controller.Note) controller.Summary {
	return controller.Summary{State: state, Note: note}
}

func condition(d *appsv1.Deployment, kind appsv1.DeploymentConditionType) appsv1.DeploymentCondition {
	for _, c := range d.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return appsv1.DeploymentCondition{}
}
