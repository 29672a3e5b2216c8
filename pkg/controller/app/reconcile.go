package app

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/internal/children"
	windlassclient "windlass.dev/windlass/pkg/generated/clientset/versioned/typed/windlass/v1alpha1"
)

// missingRecheck is how often a Secret or ConfigMap that is missing is looked for,
// should the event that tells of it be lost.
const missingRecheck = 5 * time.Second

// reconciler is the kind App.
type reconciler struct {
	children    []children.Child[*scope]
	deployments children.Cache[*appsv1.Deployment]

	// apps reads an App before it gets a child again.
	apps windlassclient.AppsGetter
	// known returns the version of a Secret or ConfigMap that the caches have.
	known func(ref reference, namespace string) (controller.Versioned, error)
	// read reads one from the API server, and returns its version and digest.
	read func(ctx context.Context, ref reference, namespace string) (input, error)
	// digests are what it has returned.
	digests *digests
}

// scope is what the steps of one reconcile share.
type scope struct {
	app        *v1alpha1.App
	owner      children.Owner
	inputs     inputs
	waiting    error              // for what the spec names and is not there
	before     *appsv1.Deployment // as the cache has it, or nil
	deployment *appsv1.Deployment // as it is once it was applied, or nil
}

func newScope(app *v1alpha1.App) *scope {
	return &scope{app: app, owner: children.Owner{Object: app, Kind: groupVersionKind}}
}

// ChildOwner implements children.Scope.
func (p *scope) ChildOwner() children.Owner { return p.owner }

// selected is the Deployment that decides what selects the Pods: as it was before this pass as long
// as its Pods did not bear appLabel then, as after a rollback.
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

// Inputs implements controller.Deterministic: what the API server is asked for, digests of
// Secrets and ConfigMaps, is kept on the Deployment with the versions that it is of.
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
