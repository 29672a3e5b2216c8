package app

import (
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/conditions"
	"windlass.dev/windlass/pkg/controller/rollout"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

// setAddress sets the URL and the selector of the Pods.
func setAddress(app *v1alpha1.App) {
	app.Status.URL = urlOf(app)
	app.Status.Selector = labels.SelectorFromSet(selectorOf(app)).String()
}

// setBlocked sets the status after a reconcile that failed or waits. started says that the Deployment was applied, or that
// its template waits for beforeRollout.
func setBlocked(app *v1alpha1.App, started bool, err error) {
	switch {
	case controller.Degrades(app, err):
		app.Status.Phase = v1alpha1.AppFailed
	case started:
		app.Status.Phase = v1alpha1.AppDeploying
	default:
		app.Status.Phase = v1alpha1.AppPending
	}
	controller.Blocked(err).SetOn(app)
}

// setRollout sets the status from the Deployment and from the problems of its Pods, which may be nil.
// During a rollout, the status gets new numbers of Pods only when the status or the reason of Ready
// changes, so that a rollout of many Pods does not cost as many writes.
func setRollout(p *scope, t *podProblems) {
	app, d := p.app, p.deployment
	if stillReady(app, p.before, d) {
		return
	}
	before := ptr.Deref(conditions.Find(app.Status.Conditions, conditions.Ready), metav1.Condition{})
	needed := neededBy(app, d, p.autoscaler)
	summary := rolloutWith(d, needed)
	if t != nil {
		summary = t.describe(app, summary, needed)
	}
	if p.autoscaler != nil && summary.State == controller.StateReady {
		summary.Message += " " + p.autoscalerNote().Message
	}
	app.Status.Phase = phaseOf(summary)
	summary.SetOn(app)
	after := conditions.Find(app.Status.Conditions, conditions.Ready)
	if app.Status.Phase == v1alpha1.AppReady || before.Status != after.Status || before.Reason != after.Reason {
		app.Status.Replicas, app.Status.ReadyReplicas = d.Status.Replicas, d.Status.ReadyReplicas
	}
}

// stillReady reports whether a Ready App's Deployment has changed, but neither its Pod template nor its number of
// Pods. A change of annotations or of the strategy raises the generation of a Deployment, and its controller has not
// observed the new generation yet.
func stillReady(app *v1alpha1.App, was, d *appsv1.Deployment) bool {
	return app.Status.Phase == v1alpha1.AppReady && app.Status.ObservedGeneration == app.Generation &&
		d.Status.ObservedGeneration < d.Generation && was != nil &&
		equality.Semantic.DeepEqual(was.Spec.Replicas, d.Spec.Replicas) &&
		equality.Semantic.DeepEqual(was.Spec.Template, d.Spec.Template)
}

// rolloutWith summarizes a Deployment. needed is the number of its Pods that have to be available.
func rolloutWith(d *appsv1.Deployment, needed int32) controller.Summary {
	s := rollout.Summarize(d, needed)
	if s.State == controller.StateDegraded && s.Reason == failedCreate {
		s.Note = pods.RefusedPodsNote(d.Name, s.Message)
	}
	return s
}

// failedCreate is the reason of the condition ReplicaFailure of a Deployment whose Pods the API server rejects
// (k8s.io/kubernetes, pkg/controller/replicaset).
const failedCreate = "FailedCreate"

// neededBy returns the number of Pods that have to be available. An App with an autoscaler stays Ready while Pods
// beyond its minimum start. other is an autoscaler of somebody else, or nil.
func neededBy(app *v1alpha1.App, d *appsv1.Deployment, other *autoscalingv2.HorizontalPodAutoscaler) int32 {
	needed := ptr.Deref(d.Spec.Replicas, 1)
	if isAutoscaled(app) {
		needed = min(needed, least(app))
	} else if other != nil {
		needed = min(needed, ptr.Deref(other.Spec.MinReplicas, 1))
	}
	return needed
}

// phaseOf returns the phase of an App with this Summary. An App whose Pods cannot be scheduled is Deploying, because a
// node may be added. So is an App whose Pods wait for an init container, which may end.
func phaseOf(s controller.Summary) v1alpha1.AppPhase {
	switch {
	case s.State == controller.StateReady:
		return v1alpha1.AppReady
	case s.State == controller.StateProgressing, s.Reason == pods.ReasonUnschedulable, s.Reason == pods.ReasonInitializing:
		return v1alpha1.AppDeploying
	default:
		return v1alpha1.AppFailed
	}
}

// reasonOf returns the reason of the condition Ready, or "".
func reasonOf(status *v1alpha1.AppStatus) string {
	return ptr.Deref(conditions.Find(status.Conditions, conditions.Ready), metav1.Condition{}).Reason
}
