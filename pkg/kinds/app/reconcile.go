package app

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/controller/references"
	"windlass.dev/windlass/pkg/kinds"
)

// missingRecheck is how often an App is reconciled while a Secret or ConfigMap is missing, in case
// the event of its creation is lost.
const missingRecheck = 5 * time.Second

// maxDigests is how many digests are remembered, of all Secrets and ConfigMaps.
const maxDigests = 4096

// reconciler finds the inputs of the Pods of Apps. The children do the rest.
type reconciler struct {
	deployments children.Cache[*appsv1.Deployment]

	// known returns the version of a Secret or ConfigMap in the caches.
	known func(ref reference, namespace string) (controller.Versioned, error)
	// read reads a Secret or ConfigMap from the API server, and returns its version and digest.
	read func(ctx context.Context, ref reference, namespace string) (input, error)
	// digests remembers the results of read. Only digests are kept, which are also annotations of the
	// Deployment.
	digests *references.Memo[input]
}

func newReconciler(c kinds.Cluster, refs *named) *reconciler {
	deployments := children.CacheOf[*appsv1.Deployment](c.Deployments().Informer.GetStore())
	return &reconciler{deployments: deployments, known: refs.known, read: refs.read, digests: references.NewMemo[input](maxDigests)}
}

// scope is what the steps of one reconcile share.
type scope struct {
	children.Owner
	app        *v1alpha1.App
	inputs     inputs
	waiting    error              // for missing references, or nil
	before     *appsv1.Deployment // the cached Deployment, or nil
	deployment *appsv1.Deployment // the Deployment after it was applied, or nil
}

func newScope(app *v1alpha1.App, owner children.Owner) *scope {
	return &scope{Owner: owner, app: app}
}

// selected returns the Deployment that decides which labels select the Pods. If the Pods lacked
// appLabel before this reconcile, as after a rollback, that is the former Deployment.
func (p *scope) selected() *appsv1.Deployment {
	if p.before != nil && p.before.Spec.Template.Labels[appLabel] != p.app.Name {
		return p.before
	}
	return p.deployment
}

// finish sets the status, and returns what the reconcile ends with.
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

// inputs adds the references of an App to seen. The digests of Secrets and ConfigMaps, which are read
// from the API server, are annotations of the Deployment with the versions of the objects.
func (r *reconciler) inputs(p *scope, seen *controller.Versions) {
	for _, ref := range referencesOf(p.app) {
		known, err := r.known(ref, p.app.Namespace)
		if apierrors.IsNotFound(err) {
			known, err = nil, nil
		}
		seen.Add(known, err)
	}
}
