package app

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/kinds"
)

func serviceOf(c kinds.Cluster) children.Child[*scope] {
	return &children.Declaration[*scope, *corev1.Service]{
		Resource: c.Services(),
		Hold:     func(p *scope) bool { return p.widened.service },
		Desired: func(p *scope) *corev1.Service {
			desired := desiredService(p.app)
			desired.Spec.Selector = podSelector(p.app, p.selected(), nil)
			return desired
		},
		Keep: func(p *scope, desired, live *corev1.Service) {
			desired.Spec.Selector = podSelector(p.app, p.selected(), live.Spec.Selector)
		},
	}
}

func disruptionBudgetOf(c kinds.Cluster) children.Child[*scope] {
	return &children.Declaration[*scope, *policyv1.PodDisruptionBudget]{
		Resource: c.PodDisruptionBudgets(),
		Hold:     func(p *scope) bool { return p.widened.budget },
		When:     when(needsBudget),
		Desired: func(p *scope) *policyv1.PodDisruptionBudget {
			desired := desiredDisruptionBudget(p.app)
			desired.Spec.Selector.MatchLabels = podSelector(p.app, p.selected(), nil)
			return desired
		},
		Keep: func(p *scope, desired, live *policyv1.PodDisruptionBudget) {
			desired.Spec.Selector.MatchLabels = podSelector(p.app, p.selected(), labelsOf(live.Spec.Selector))
		},
	}
}

// widened records from which children widen has removed appLabel.
type widened struct{ service, budget bool }

// widen returns a function for Declaration.Before of the Deployment. If the template lacks appLabel, as after a rollback,
// the function applies the children whose selectors have appLabel. This removes appLabel from the selectors before the
// template gets it. In the other order, a failure between the two writes would leave no trace for the next reconcile
// that Pods lack appLabel.
func widen(c kinds.Cluster, service, budget children.Child[*scope]) func(context.Context, *scope, *appsv1.Deployment) error {
	services := children.CacheOf[*corev1.Service](c.Services().Informer.GetStore())
	budgets := children.CacheOf[*policyv1.PodDisruptionBudget](c.PodDisruptionBudgets().Informer.GetStore())
	return func(ctx context.Context, p *scope, live *appsv1.Deployment) error {
		if live.Spec.Template.Labels[appLabel] == p.app.Name {
			return nil
		}
		p.unlabeled = live
		if isNarrow(p, services, func(s *corev1.Service) map[string]string { return s.Spec.Selector }) {
			if err := service.Apply(ctx, p); err != nil {
				return err
			}
			p.widened.service = true
		}
		if needsBudget(p.app) && isNarrow(p, budgets, func(b *policyv1.PodDisruptionBudget) map[string]string { return labelsOf(b.Spec.Selector) }) {
			if err := budget.Apply(ctx, p); err != nil {
				return err
			}
			p.widened.budget = true
		}
		return nil
	}
}

// isNarrow reports whether a child of the App selects Pods by appLabel. It returns true for a child that exceeds a
// budget, and false for a child that is not in the cache because another client removed ManagedByLabel.
func isNarrow[C children.Object](p *scope, cached children.Cache[C], selector func(C) map[string]string) bool {
	child, err := cached.Get(p.app.Namespace, p.app.Name)
	if err != nil {
		return !apierrors.IsNotFound(err)
	}
	return p.Owns(child) && selector(child)[appLabel] == p.app.Name
}

// narrowSelector returns the labels by which the Service and the PodDisruptionBudget select the Pods of an
// App. Unlike the labels of selectorOf, they do not match Pods of Helm charts.
func narrowSelector(app *v1alpha1.App) map[string]string {
	selector := selectorOf(app)
	selector[appLabel] = app.Name
	return selector
}

// podSelector returns the selector for the Pods of an App whose Deployment is d, or nil. now is the current
// selector, or nil. The selector includes appLabel only when all Pods have that label: if the template has
// always had it, after a complete rollout of a template with it, or if now includes it. In other cases
// appLabel could exclude running Pods.
func podSelector(app *v1alpha1.App, d *appsv1.Deployment, now map[string]string) map[string]string {
	narrow := narrowSelector(app)
	switch {
	case d == nil || d.Spec.Template.Labels[appLabel] != app.Name:
		return selectorOf(app)
	case d.Generation <= 1 && now == nil, now[appLabel] == app.Name, !d.Spec.Paused && rolloutOf(app, d).State == controller.StateReady:
		return narrow
	}
	return selectorOf(app)
}

// labelsOf returns the labels of a selector that may be nil.
func labelsOf(selector *metav1.LabelSelector) map[string]string {
	if selector == nil {
		return nil
	}
	return selector.MatchLabels
}
