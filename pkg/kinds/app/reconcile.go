package app

import (
	"errors"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/controller/references"
	"windlass.dev/windlass/pkg/kinds"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

// missingRecheck is how often an App is reconciled while a Secret or ConfigMap is missing, in case
// the event of its creation is lost.
const missingRecheck = 5 * time.Second

// maxDigests limits how many digests of Secrets and ConfigMaps the operator remembers: more than there are in a large
// cluster, because beyond that each reconcile of an App would read its Secrets again.
const maxDigests = 1 << 16

// reconciler reads the inputs of the Pods of Apps. Package children applies the declared children.
type reconciler struct {
	*named
	kube        kubernetes.Interface
	databases   *databases
	pods        *podCache
	clock       clock.PassiveClock
	events      controller.EventRecorder
	deployments children.Cache[*appsv1.Deployment]
	// digests remembers the results of read. It holds no data of Secrets, only digests, which are also in
	// an annotation of the Deployment.
	digests *references.Memo[input]
}

func newReconciler(c kinds.Cluster, r controller.Runtime, refs *named, dbs *databases, cached *podCache) *reconciler {
	return &reconciler{
		named: refs, kube: c.Kube, databases: dbs, pods: cached, clock: r.Clock, events: r.Events,
		deployments: children.CacheOf[*appsv1.Deployment](c.Deployments().Informer.GetStore()),
		digests:     references.NewMemo[input](maxDigests),
	}
}

// scope holds the state that the steps of one reconcile share.
type scope struct {
	children.Owner
	app          *v1alpha1.App
	inputs       inputs
	waiting      error              // why the Deployment must not change, or nil
	held         *held              // why the Pod template must not change, or nil
	before       *appsv1.Deployment // the cached Deployment, or nil
	deployment   *appsv1.Deployment // the Deployment after it was applied, or nil
	drifted      *appsv1.Deployment // the desired Deployment, if another client had changed the template, or nil
	requeueAfter time.Duration      // positive if time alone can change the status

	autoscaler *autoscalingv2.HorizontalPodAutoscaler // of somebody else, which sets the number of replicas, or nil
}

func newScope(app *v1alpha1.App, owner children.Owner) *scope {
	return &scope{Owner: owner, app: app}
}

// hasDeployment reports whether the App had a Deployment before this reconcile.
func (p *scope) hasDeployment() bool { return p.before != nil && p.Owns(p.before) }

// holdsConfig reports whether the ConfigMap must keep the files of the former template, because the running Pods mount
// it.
func (p *scope) holdsConfig() bool {
	held := p.held != nil || p.waiting != nil && p.app.Spec.BeforeRollout != nil
	return held && p.hasDeployment() && inputsFrom(p.before.Annotations[inputsAnnotation])[ownConfig].Digest != p.inputs[ownConfig].Digest
}

// kept returns the Pod template that the operator applied last, or nil if it is not known. The Deployment keeps this
// template while p.held is set.
func (p *scope) kept() *corev1.PodTemplateSpec {
	if !p.hasDeployment() {
		return nil
	}
	last, known := pods.LastTemplate(p.before)
	if !known || !isReleased(p.app, digestOfTemplate(last)) {
		return nil
	}
	return last
}

// finish sets the status, and returns the error of the reconcile.
func (r *reconciler) finish(p *scope, err error) error {
	if p.deployment != nil && p.waiting == nil && p.held == nil {
		p.app.Status.TemplateDigest = p.deployment.Spec.Template.Annotations[templateAnnotation]
	}
	if p.reverted() {
		note := messageReverted.Note(p.app.Name, p.app.Name)
		r.events.Event(p.app, corev1.EventTypeWarning, note.Reason, note.Message)
	}
	if p.hasYielded() {
		note := p.autoscalerNote()
		r.events.Event(p.app, corev1.EventTypeWarning, note.Reason, note.Message)
	}
	if err == nil && p.deployment == nil { // it was deleted during the reconcile
		err = controller.AwaitDeletion()
	}
	if errors.Is(err, errHeld) {
		return r.finishHeld(p)
	}
	if err != nil {
		if p.held != nil && p.held.first {
			err = p.held.err // the next reconcile, which follows at once, reports the other error
		} else if p.held != nil {
			err = controller.Worst(p.held.err, err)
		}
		setBlocked(p.app, p.deployment != nil, err)
		return err
	}
	found, requeueAfter := r.pods.problemsOf(p.app, p.deployment, r.clock.Now())
	p.requeueAfter = requeueAfter
	if p.autoscaler != nil && (requeueAfter == 0 || requeueAfter > autoscalerRecheck) {
		p.requeueAfter = autoscalerRecheck
	}
	former := p.app.Status.DeepCopy()
	setRollout(p, found)
	if p.waiting != nil || p.held != nil {
		err := r.finishWaiting(p)
		if found != nil && reasonOf(&p.app.Status) == reasonOf(former) { // a crash loop must not cause a write for each crash
			p.app.Status.Replicas, p.app.Status.ReadyReplicas = former.Replicas, former.ReadyReplicas
		}
		return err
	}
	if p.app.Status.Phase == v1alpha1.AppReady {
		r.noteAvailable(p)
	}
	return nil
}

// reverted reports whether the operator has reverted a change of the Pod template. It has not if an admission plugin
// makes the change again in each write.
func (p *scope) reverted() bool {
	return p.drifted != nil && p.deployment != nil && p.before != nil && p.deployment.ResourceVersion != p.before.ResourceVersion &&
		!hasTemplateDrift(p.app.Status.TemplateDigest, p.drifted, p.deployment)
}

// finishWaiting sets the status of an App whose Pod template is not rolled out, and returns the error of the reconcile.
func (r *reconciler) finishWaiting(p *scope) error {
	if p.waiting == nil {
		return r.finishHeld(p)
	}
	setBlocked(p.app, false, p.waiting)
	return p.waiting
}

// finishHeld sets the status of an App whose Pod template is held, and returns the error of the reconcile.
func (r *reconciler) finishHeld(p *scope) error {
	if p.held.err != nil {
		setBlocked(p.app, true, p.held.err)
		return p.held.err
	}
	p.requeueAfter = p.held.requeueAfter
	p.app.Status.Phase = phaseOf(p.held.summary)
	p.held.summary.SetOn(p.app)
	return nil
}

// noteAvailable records the template of a Ready App in the status, so that users know what to roll back to.
func (r *reconciler) noteAvailable(p *scope) {
	status := &p.app.Status
	if status.TemplateDigest == "" || status.LastAvailable != nil && status.LastAvailable.TemplateDigest == status.TemplateDigest {
		return
	}
	status.LastAvailable = &v1alpha1.AvailableTemplate{
		TemplateDigest: status.TemplateDigest, Image: p.app.Spec.Image, ImageID: r.pods.imageID(p.app, status.TemplateDigest),
	}
}
