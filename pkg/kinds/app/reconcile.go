package app

import (
	"cmp"
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/children"
)

// reconciler reconciles Apps. Each reconcile calls prepare, applies the children (children.go), and calls finish.
type reconciler struct {
	deployments   children.Cache[*appsv1.Deployment]
	inputs        *inputCache
	databases     *databases
	kube          kubernetes.Interface
	beforeRollout *beforeRollout
	pods          *podCache
	clock         clock.PassiveClock
	events        controller.EventRecorder
}

// scope holds the state of one reconcile of an App.
type scope struct {
	children.Owner
	app *v1alpha1.App
	// observed is the state that prepare has read.
	observed observed
	// hold says why the Pod template must not change, or is nil. prepare sets it. If hold is set while the children are
	// applied, observed.deployment is set too, and belongs to the App: otherwise prepare returns the hold.
	hold *hold
	// sizes has an error for each claim whose volume cannot have its desired size. volumeClaims adds them.
	sizes []error
	// adopted is the Deployment before this reconcile adopted it, or nil.
	adopted *appsv1.Deployment
	// applied has the results of applying the children.
	applied applied
	// available is true if the newest Pods are rolled out, and at least one Pod is available. finish sets it.
	available bool
	// requeueAfter is positive if time alone can change the status. finish sets it.
	requeueAfter time.Duration
}

// deployment returns the Deployment after it was applied, or else the Deployment that prepare has read, or nil.
func (p *scope) deployment() *appsv1.Deployment {
	return cmp.Or(p.applied.deployment, p.observed.deployment)
}

func newScope(app *v1alpha1.App, owner children.Owner) *scope {
	owner.ChildLabels, owner.ChildAnnotations = app.Spec.Metadata.Maps()
	return &scope{Owner: owner, app: app}
}

// prepare reads the state that the children depend on, and takes the next step of beforeRollout. If the Pod template
// must not change and the App has no Deployment, prepare returns the hold as its error, so that no child is applied. In
// this case, prepare itself calls settle, which is otherwise a child.
func (r *reconciler) prepare(ctx context.Context, p *scope) (err error) {
	p.app.Status.URL = urlOf(p.app)
	if p.observed, err = r.observe(ctx, p); err != nil {
		return err
	}
	o := &p.observed
	switch {
	case o.allowsRun():
		p.hold = r.beforeRollout.proceed(ctx, p)
	case o.unmet != nil:
		p.hold = &hold{err: o.unmet}
	default: // the Deployment is foreign, and the Deployment child reports the conflict of names
	}
	if p.hold != nil && o.deployment == nil {
		if err := r.beforeRollout.settle(ctx, p); err != nil {
			return err
		}
		return p.hold
	}
	if p.hold != nil && o.unmet == nil {
		p.hold.template = templateToKeep(p.app, o.deployment)
	}
	return nil
}

// finish sets the status, and returns the result of the reconcile. err is the error of prepare, or of children.
func (r *reconciler) finish(p *scope, err error) (controller.Result, error) {
	setSelector(p)
	err = r.setStatus(p, err)
	return controller.Result{RequeueAfter: p.requeueAfter}, err
}

// setStatus sets the status, and returns the error of the reconcile.
func (r *reconciler) setStatus(p *scope, err error) error {
	r.recordEvents(p) // before the digest changes: recordEvents compares with the stored one
	status, d := &p.app.Status, p.applied.deployment
	if d != nil && p.hold == nil {
		status.TemplateDigest = appliedDigest(d)
	}
	if err == nil && d == nil { // the held Deployment was deleted after prepare had read it
		err = controller.ErrDeletionNotObserved
	}
	if err != nil {
		return setFailed(p, err)
	}
	replicas, ready, reason := status.Replicas, status.ReadyReplicas, readyOf(p.app).Reason
	problems := r.setFromDeployment(p)
	if p.hold == nil {
		if p.available {
			r.setLastAvailable(p.app)
		}
		return nil
	}
	// The hold replaces the phase and the conditions Ready and Progressing. Degraded and Stalled stay as setFromDeployment
	// has set them, unless the hold sets them too.
	err = setFromHold(p)
	// setFromDeployment limits how often the numbers of Pods change, but it compares the reason of the Deployment with the
	// reason of the previous hold. A crash loop must not cause a write for each crash.
	if problems && readyOf(p.app).Reason == reason {
		status.Replicas, status.ReadyReplicas = replicas, ready
	}
	return err
}
