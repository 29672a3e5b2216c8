package app

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/controller/references"
	"windlass.dev/windlass/pkg/kinds"
)

// missingRecheck is how often an App is reconciled while a Secret or ConfigMap is missing, in case
// the event of its creation is lost.
const missingRecheck = 5 * time.Second

// maxDigests limits how many digests of Secrets and ConfigMaps the operator remembers.
const maxDigests = 4096

// reconciler reads the inputs of the Pods of Apps. Package children applies the declared children.
type reconciler struct {
	*named
	deployments children.Cache[*appsv1.Deployment]
	// digests remembers the results of read. It holds no data of Secrets, only digests, which are also in
	// an annotation of the Deployment.
	digests *references.Memo[input]
}

func newReconciler(c kinds.Cluster, refs *named) *reconciler {
	return &reconciler{refs, children.CacheOf[*appsv1.Deployment](c.Deployments().Informer.GetStore()), references.NewMemo[input](maxDigests)}
}

// scope holds the state that the steps of one reconcile share.
type scope struct {
	children.Owner
	app        *v1alpha1.App
	inputs     inputs
	waiting    error              // why the Deployment must not change, or nil
	before     *appsv1.Deployment // the cached Deployment, or nil
	deployment *appsv1.Deployment // the Deployment after it was applied, or nil
}

func newScope(app *v1alpha1.App, owner children.Owner) *scope {
	return &scope{Owner: owner, app: app}
}

// selected returns the Deployment whose template decides which labels select the Pods: the Deployment
// before this reconcile if its template lacked appLabel, as after a rollback, and otherwise the Deployment
// after this reconcile has applied it.
func (p *scope) selected() *appsv1.Deployment {
	if p.before != nil && p.before.Spec.Template.Labels[appLabel] != p.app.Name {
		return p.before
	}
	return p.deployment
}

// finish sets the status, and returns the error of the reconcile.
func finish(p *scope, err error) error {
	if err != nil {
		setBlocked(p.app, p.deployment != nil, err)
		return err
	}
	setRollout(p.app, p.before, p.deployment)
	if p.waiting != nil {
		setBlocked(p.app, false, p.waiting)
	}
	return p.waiting
}
