package app

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

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
	configMaps  children.Type[*corev1.ConfigMap]
	deployments children.Type[*appsv1.Deployment]
	services    children.Type[*corev1.Service]
	ingresses   children.Type[*networkingv1.Ingress]
	autoscalers children.Type[*autoscalingv2.HorizontalPodAutoscaler]
	budgets     children.Type[*policyv1.PodDisruptionBudget]

	// apps reads an App before it gets a child again.
	apps windlassclient.AppsGetter
	// known returns the version of a Secret or ConfigMap that the caches have.
	known func(ref reference, namespace string) (controller.Versioned, error)
	// read reads one from the API server, and returns its version and digest.
	read func(ctx context.Context, ref reference, namespace string) (input, error)
	// digests are what it has returned.
	digests *digests
}

// pass is what the steps of one pass hand on.
type pass struct {
	app        *v1alpha1.App
	owner      children.Owner
	inputs     inputs
	waiting    error              // for what the spec names and is not there
	before     *appsv1.Deployment // as the cache has it, or nil
	deployment *appsv1.Deployment // as it is after the step of that name
}

// selected is the Deployment that decides what selects the Pods: as it was before this pass as long
// as its Pods did not bear appLabel then, as after a rollback.
func (p *pass) selected() *appsv1.Deployment {
	if p.before != nil && p.before.Spec.Template.Labels[appLabel] != p.app.Name {
		return p.before
	}
	return p.deployment
}

// Reconcile implements controller.Reconciler. A step that fails ends the pass, so
// that nothing is made whose needs are not met.
func (r *reconciler) Reconcile(ctx context.Context, app *v1alpha1.App) (controller.Result, error) {
	p := &pass{app: app, owner: children.Owner{Object: app, Kind: v1alpha1.SchemeGroupVersion.WithKind("App")}}
	p.owner.Live = children.Once(func(ctx context.Context) (metav1.Object, error) {
		return r.apps.Apps(app.Namespace).Get(ctx, app.Name, metav1.GetOptions{})
	})
	setAddress(app)
	for _, step := range []func(context.Context, *pass) error{
		r.dependencies,
		r.configMap,
		r.deployment,
		r.service,
		r.ingress,
		r.autoscaler,
		r.disruptionBudget,
		r.pruneConfigMap, // once no Pod template mounts it
	} {
		if err := step(ctx, p); err != nil {
			setBlocked(app, p.deployment != nil, err)
			return controller.Result{}, err
		}
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
	see(seen, r.configMaps.Cache, app, len(app.Spec.Config) > 0)
	see(seen, r.deployments.Cache, app, true)
	see(seen, r.services.Cache, app, true)
	see(seen, r.ingresses.Cache, app, app.Spec.Ingress != nil)
	see(seen, r.autoscalers.Cache, app, app.Spec.Autoscaling != nil)
	see(seen, r.budgets.Cache, app, least(app) > 1)
	for _, ref := range referencesOf(app) {
		known, err := r.known(ref, app.Namespace)
		if apierrors.IsNotFound(err) {
			known, err = nil, nil
		}
		seen.Add(known, err)
	}
}

// see adds a child.
func see[T children.Object](seen *controller.Versions, cache children.Cache[T], app *v1alpha1.App, wanted bool) {
	child, err := cache.Version(app.Namespace, app.Name)
	if wanted {
		seen.AddWanted(child, err)
	} else {
		seen.Add(child, err)
	}
}

func (r *reconciler) configMap(ctx context.Context, p *pass) error {
	want := desiredConfigMap(p.app)
	if want == nil {
		return nil
	}
	_, err := r.configMaps.Ensure(ctx, p.owner, want, nil)
	return err
}

func (r *reconciler) pruneConfigMap(ctx context.Context, p *pass) error {
	if desiredConfigMap(p.app) != nil {
		return nil
	}
	return r.configMaps.Prune(ctx, p.owner, p.app.Name)
}

func (r *reconciler) deployment(ctx context.Context, p *pass) error {
	if p.waiting != nil {
		p.deployment = p.before
		return nil
	}
	want := desiredDeployment(p.app, p.inputs)
	deployments, first := r.deployments, func(*appsv1.Deployment) {}
	deployments.Keep = keepTemplate
	if p.app.Spec.Autoscaling != nil {
		first = func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To(least(p.app)) }
		// An autoscaler does not begin at 0. What it has made of that since p.before stays.
		deployments.Keep = func(want, live *appsv1.Deployment) {
			keepTemplate(want, live)
			if ptr.Deref(live.Spec.Replicas, 1) == 0 {
				first(want)
			}
		}
	}
	d, err := deployments.Ensure(ctx, p.owner, want, first)
	if err != nil {
		return err
	}
	p.deployment = d
	return nil
}

func (r *reconciler) service(ctx context.Context, p *pass) error {
	services, want := r.services, desiredService(p.app)
	want.Spec.Selector = podSelector(p.app, p.selected(), nil)
	services.Keep = func(want, live *corev1.Service) {
		want.Spec.Selector = podSelector(p.app, p.selected(), live.Spec.Selector)
	}
	_, err := services.Ensure(ctx, p.owner, want, nil)
	return err
}

func (r *reconciler) ingress(ctx context.Context, p *pass) error {
	want := desiredIngress(p.app)
	if want == nil {
		return r.ingresses.Prune(ctx, p.owner, p.app.Name)
	}
	_, err := r.ingresses.Ensure(ctx, p.owner, want, nil)
	return err
}

func (r *reconciler) autoscaler(ctx context.Context, p *pass) error {
	want := desiredAutoscaler(p.app)
	if want == nil {
		return r.autoscalers.Prune(ctx, p.owner, p.app.Name)
	}
	_, err := r.autoscalers.Ensure(ctx, p.owner, want, nil)
	return err
}

func (r *reconciler) disruptionBudget(ctx context.Context, p *pass) error {
	want := desiredDisruptionBudget(p.app)
	if want == nil {
		return r.budgets.Prune(ctx, p.owner, p.app.Name)
	}
	budgets := r.budgets
	want.Spec.Selector.MatchLabels = podSelector(p.app, p.selected(), nil)
	budgets.Keep = func(want, live *policyv1.PodDisruptionBudget) {
		want.Spec.Selector.MatchLabels = podSelector(p.app, p.selected(), labelsOf(live.Spec.Selector))
	}
	_, err := budgets.Ensure(ctx, p.owner, want, nil)
	return err
}
