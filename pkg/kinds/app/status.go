package app

import (
	"errors"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/conditions"
	"windlass.dev/windlass/pkg/controller/rollout"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

// setSelector sets the selector of the Pods, for autoscalers.
func setSelector(p *scope) {
	selector := &metav1.LabelSelector{MatchLabels: selectorOf(p.app)}
	if d := p.deployment(); d != nil && d.Spec.Selector != nil {
		selector = d.Spec.Selector
	}
	p.app.Status.Selector = metav1.FormatLabelSelector(selector)
}

// recordEvents emits a warning for each change by another client that the operator has reverted (the Pod template) or
// has left in place (the number of replicas).
func (r *reconciler) recordEvents(p *scope) {
	app, was, d := p.app, p.observed.deployment, p.applied.deployment
	if was == nil || d == nil {
		return
	}
	warn := func(note controller.Note) { r.events.Event(app, corev1.EventTypeWarning, note.Reason, note.Message) }
	// An admission plugin may make the change again in each write: then nothing was reverted.
	drifted, written := p.applied.drifted, d.ResourceVersion != was.ResourceVersion
	if drifted != nil && written && !hasTemplateDrift(app.Status.TemplateDigest, drifted, d) {
		warn(messageReverted.Note(app.Name, app.Name))
	}
	if p.observed.autoscaler != nil && appliedReplicas(was) != nil && appliedReplicas(d) == nil { // for the first time
		warn(autoscalerNote(app, p.observed.autoscaler))
	}
}

// setFailed sets the status after prepare or a child returned an error, and returns the error of the reconcile.
func setFailed(p *scope, err error) error {
	if h := p.hold; h != nil {
		if h.untilStored || errors.Is(err, h) { // the status must be stored first, or no child was applied
			return setFromHold(p)
		}
		err = controller.Worst(h.err, err) // h.err may be nil
	}
	return setBlocked(p.app, p.applied.deployment != nil, err)
}

// setBlocked sets the status after a reconcile that failed or waits, and returns its error err. deploying reports
// whether the Deployment was applied, or its template waits for beforeRollout alone. Otherwise the App is Pending: for
// example an App that lacks an object, even if Pods of its previous template run.
func setBlocked(app *v1alpha1.App, deploying bool, err error) error {
	switch {
	case controller.Degrades(app, err):
		app.Status.Phase = v1alpha1.AppFailed
	case deploying:
		app.Status.Phase = v1alpha1.AppDeploying
	default:
		app.Status.Phase = v1alpha1.AppPending
	}
	controller.Blocked(err).SetOn(app)
	return err
}

// setFromHold sets the status of an App whose Pod template must not change, and returns the error of the reconcile.
func setFromHold(p *scope) error {
	h := p.hold
	if h.err != nil {
		return setBlocked(p.app, p.observed.unmet == nil, h.err)
	}
	p.requeueAfter = pods.Earliest(p.requeueAfter, h.requeueAfter)
	p.app.Status.Phase = phaseOf(h.summary)
	h.summary.SetOn(p.app)
	return nil
}

// setFromDeployment sets the status from the Deployment and from the problems of its Pods, and reports whether Pods
// have problems. During a rollout, the status gets new numbers of Pods only when the status or the reason of the
// condition Ready changes, so that a rollout of many Pods causes few writes.
func (r *reconciler) setFromDeployment(p *scope) (problems bool) {
	app, d, autoscaler := p.app, p.applied.deployment, p.observed.autoscaler
	found, requeueAfter := r.pods.problemsOf(app, d, r.clock.Now())
	p.requeueAfter = requeueAfter
	if autoscaler != nil {
		p.requeueAfter = pods.Earliest(requeueAfter, autoscalerRecheck)
	}
	cannotScale, requeueAfter := inactive(p.applied.autoscaler, r.clock.Now())
	p.requeueAfter = pods.Earliest(p.requeueAfter, requeueAfter)
	if stillReady(app, p.observed.deployment, d) {
		return found != nil
	}
	before := readyOf(app)
	needed := neededBy(app, d, autoscaler)
	summary := summarizeRollout(d, needed)
	if found != nil {
		summary = found.describe(app, summary, needed)
	}
	if autoscaler != nil && summary.State == controller.StateReady {
		summary.Message += " " + autoscalerNote(app, autoscaler).Message
	}
	isRolledOut := summary.State == controller.StateReady
	if isRolledOut {
		summary.Message += cannotScale
	}
	p.available = isRolledOut && d.Status.AvailableReplicas > 0
	summary = withRoute(summary, p.applied.route)
	app.Status.Phase = phaseOf(summary)
	summary.SetOn(app)
	after := readyOf(app)
	if isRolledOut || before.Status != after.Status || before.Reason != after.Reason {
		app.Status.Replicas, app.Status.ReadyReplicas = d.Status.Replicas, d.Status.ReadyReplicas
	}
	return found != nil
}

// setLastAvailable sets the template of a Ready App in status.lastAvailable, so that users know what to roll back to.
func (r *reconciler) setLastAvailable(app *v1alpha1.App) {
	digest, last := app.Status.TemplateDigest, app.Status.LastAvailable
	if digest == "" || last != nil && last.TemplateDigest == digest {
		return
	}
	app.Status.LastAvailable = &v1alpha1.AvailableTemplate{
		TemplateDigest: digest, Image: app.Spec.Image, ImageID: r.pods.imageID(app, digest),
	}
}

// stillReady reports whether a Ready App stays Ready although the Deployment controller has not observed the newest
// generation of d: neither the Pod template nor the number of Pods has changed since was. A change of annotations or of
// the strategy also raises the generation.
func stillReady(app *v1alpha1.App, was, d *appsv1.Deployment) bool {
	return app.Status.Phase == v1alpha1.AppReady && app.Status.ObservedGeneration == app.Generation &&
		d.Status.ObservedGeneration < d.Generation && was != nil &&
		equality.Semantic.DeepEqual(was.Spec.Replicas, d.Spec.Replicas) &&
		equality.Semantic.DeepEqual(was.Spec.Template, d.Spec.Template)
}

// summarizeRollout summarizes a Deployment. needed is the number of its Pods that have to be available.
func summarizeRollout(d *appsv1.Deployment, needed int32) controller.Summary {
	s := rollout.Summarize(d, needed)
	if s.State == controller.StateDegraded && s.Reason == failedCreate {
		s.Note = pods.RejectedPodsNote(d.Name, s.Message)
	}
	return s
}

// failedCreate is the reason of the condition ReplicaFailure of a Deployment whose Pods the API server rejects
// (k8s.io/kubernetes, pkg/controller/replicaset).
const failedCreate = "FailedCreate"

// neededBy returns the number of Pods that have to be available. For an App with an autoscaler, this is at most the
// minimum of the autoscaler: the App stays Ready while more Pods start. other is an autoscaler of somebody else, or
// nil.
func neededBy(app *v1alpha1.App, d *appsv1.Deployment, other *autoscalingv2.HorizontalPodAutoscaler) int32 {
	needed := ptr.Deref(d.Spec.Replicas, 1)
	if isAutoscaled(app) {
		needed = min(needed, initialReplicas(app))
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

// readyOf returns the condition Ready of an App, or the zero value.
func readyOf(app *v1alpha1.App) metav1.Condition {
	return ptr.Deref(conditions.Find(app.Status.Conditions, conditions.Ready), metav1.Condition{})
}
