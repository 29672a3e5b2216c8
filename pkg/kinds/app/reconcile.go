package app

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/children"
	windlassclient "windlass.dev/windlass/pkg/generated/clientset/versioned/typed/windlass/v1alpha1"
)

// missingRecheck is how often an App is reconciled while a Secret or ConfigMap is missing, in case
// the event of its creation is lost.
const missingRecheck = 5 * time.Second

// reconciler reconciles Apps.
type reconciler struct {
	children    []children.Child[*scope]
	deployments children.Cache[*appsv1.Deployment]

	// apps reads an App before one of its children is created.
	apps windlassclient.AppsGetter
	// known returns the version of a Secret or ConfigMap in the caches.
	known func(ref reference, namespace string) (controller.Versioned, error)
	// read reads a Secret or ConfigMap from the API server, and returns its version and digest.
	read func(ctx context.Context, ref reference, namespace string) (input, error)
	// digests caches the results of read.
	digests *digests
}

// scope is what the steps of one reconcile share.
type scope struct {
	app        *v1alpha1.App
	owner      children.Owner
	inputs     inputs
	waiting    error              // for missing references, or nil
	before     *appsv1.Deployment // the cached Deployment, or nil
	deployment *appsv1.Deployment // the Deployment after it was applied, or nil
}

func newScope(app *v1alpha1.App) *scope {
	return &scope{app: app, owner: children.Owner{Object: app, Kind: groupVersionKind}}
}

// ChildOwner implements children.Scope.
func (p *scope) ChildOwner() children.Owner { return p.owner }

// selected returns the Deployment that decides which labels select the Pods. If the Pods lacked
// appLabel before this reconcile, as after a rollback, that is the former Deployment.
func (p *scope) selected() *appsv1.Deployment {
	if p.before != nil && p.before.Spec.Template.Labels[appLabel] != p.app.Name {
		return p.before
	}
	return p.deployment
}

// Reconcile implements controller.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, app *v1alpha1.App) (controller.Result, error) {
	p := newScope(app)
	p.owner.Live = children.Once(func(ctx context.Context) (metav1.Object, error) {
		return r.apps.Apps(app.Namespace).Get(ctx, app.Name, metav1.GetOptions{})
	})
	setAddress(app)
	err := r.dependencies(ctx, p)
	if err == nil {
		err = children.Apply(ctx, p, r.children)
	}
	if err != nil {
		setBlocked(app, p.deployment != nil, err)
		return controller.Result{}, err
	}
	setRollout(app, p.before, p.deployment)
	if p.waiting != nil {
		setBlocked(app, false, p.waiting)
	}
	return controller.Result{}, p.waiting
}

// Inputs implements controller.Deterministic. The digests of Secrets and ConfigMaps, which are read
// from the API server, are annotations of the Deployment with the versions of the objects.
func (r *reconciler) Inputs(app *v1alpha1.App, seen *controller.Versions) {
	p := newScope(app)
	for _, child := range r.children {
		child.Inputs(p, seen)
	}
	for _, ref := range referencesOf(app) {
		known, err := r.known(ref, app.Namespace)
		if apierrors.IsNotFound(err) {
			known, err = nil, nil
		}
		seen.Add(known, err)
	}
}
