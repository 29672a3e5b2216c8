package app

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/conditions"
)

// Reasons of conditions. A failed rollout has the reasons of the Deployment.
const (
	reasonMissing = "DependencyMissing"
	// reasonOtherDatabase is the reason if databaseRef.kind is not the kind of the Secret's owner.
	reasonOtherDatabase = "DatabaseKindMismatch"
	reasonRollingOut    = "RollingOut"
	reasonUnavailable   = "PodsUnavailable"
	reasonAvailable     = "Available"
)

// Reasons of a Deployment's conditions (k8s.io/kubernetes, pkg/controller/deployment/util).
const (
	rolledOut        = "NewReplicaSetAvailable"
	paused           = "DeploymentPaused"
	deadlineExceeded = "ProgressDeadlineExceeded"
)

// setAddress sets the URL and the selector of the Pods.
func setAddress(app *v1alpha1.App) {
	app.Status.URL = urlOf(app)
	app.Status.Selector = labels.SelectorFromSet(selectorOf(app)).String()
}

// setBlocked sets the status after a reconcile that failed or waits.
func setBlocked(app *v1alpha1.App, deployed bool, err error) {
	switch {
	case controller.Degrades(err):
		app.Status.Phase = v1alpha1.AppFailed
	case deployed:
		app.Status.Phase = v1alpha1.AppDeploying
	default:
		app.Status.Phase = v1alpha1.AppPending
	}
	controller.Blocked(err).SetOn(app)
}

// setRollout sets the status by the Deployment, which was different before this reconcile. During a
// rollout the numbers of Pods change only together with the phase or the reason, so that a rollout of
// many Pods does not cost as many writes.
func setRollout(app *v1alpha1.App, was, d *appsv1.Deployment) {
	if stillReady(app, was, d) {
		return
	}
	before := ptr.Deref(conditions.Find(app.Status.Conditions, conditions.Ready), metav1.Condition{})
	v := verdictOf(app, d)
	app.Status.Phase = v.phase
	v.SetOn(app)
	after := conditions.Find(app.Status.Conditions, conditions.Ready)
	if app.Status.Phase == v1alpha1.AppReady || before.Status != after.Status || before.Reason != after.Reason {
		app.Status.Replicas, app.Status.ReadyReplicas = d.Status.Replicas, d.Status.ReadyReplicas
	}
}

// stillReady reports whether only the metadata of a Ready Deployment has changed. Its generation
// changes with that, and its controller has not observed it yet.
func stillReady(app *v1alpha1.App, was, d *appsv1.Deployment) bool {
	return app.Status.Phase == v1alpha1.AppReady && app.Status.ObservedGeneration == app.Generation &&
		d.Status.ObservedGeneration < d.Generation && was != nil && equality.Semantic.DeepEqual(was.Spec, d.Spec)
}

// verdict is the phase and the summary that follow from a Deployment.
type verdict struct {
	phase v1alpha1.AppPhase
	controller.Summary
}

func newVerdict(phase v1alpha1.AppPhase, state controller.State, reason, message string) verdict {
	return verdict{phase, controller.Summary{State: state, Note: controller.Note{Reason: reason, Message: message}}}
}

// verdictOf reads a Deployment like `kubectl rollout status`. An App with an autoscaler stays Ready
// while further Pods start.
func verdictOf(app *v1alpha1.App, d *appsv1.Deployment) verdict {
	rolling := newVerdict(v1alpha1.AppDeploying, controller.StateProgressing, reasonRollingOut, "The newest Pods are being rolled out.")
	if d.Status.ObservedGeneration < d.Generation {
		return rolling
	}
	progressing, failure := condition(d, appsv1.DeploymentProgressing), condition(d, appsv1.DeploymentReplicaFailure)
	wanted := ptr.Deref(d.Spec.Replicas, 1)
	if isAutoscaled(app) {
		wanted = min(wanted, least(app))
	}
	// Without a deadline there is no condition, and a paused one does not tell.
	settled := progressing.Reason == "" || progressing.Reason == paused || progressing.Reason == rolledOut
	replaced := settled && d.Status.UpdatedReplicas >= d.Status.Replicas && d.Status.UpdatedReplicas >= wanted
	available := d.Status.AvailableReplicas >= wanted
	switch {
	case progressing.Status == corev1.ConditionFalse && progressing.Reason == deadlineExceeded:
		return newVerdict(v1alpha1.AppFailed, controller.StateStalled, progressing.Reason, progressing.Message)
	case replaced && available:
		return newVerdict(v1alpha1.AppReady, controller.StateReady, reasonAvailable, "The newest Pods are rolled out and available.")
	case failure.Status == corev1.ConditionTrue:
		return newVerdict(v1alpha1.AppFailed, controller.StateDegraded, failure.Reason, failure.Message)
	case replaced:
		return newVerdict(v1alpha1.AppDeploying, controller.StateProgressing, reasonUnavailable, "Not all Pods are available; see `kubectl get pods -l app.kubernetes.io/instance="+app.Name+"`.")
	default:
		return rolling
	}
}

func condition(d *appsv1.Deployment, kind appsv1.DeploymentConditionType) appsv1.DeploymentCondition {
	for _, c := range d.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return appsv1.DeploymentCondition{}
}
