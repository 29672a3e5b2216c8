package app

import (
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/kinds"
)

// ownedBy returns the children of an App, in the order in which they are applied.
func ownedBy(c kinds.Cluster, tracker *controller.Tracker) []children.Child[*scope] {
	return []children.Child[*scope]{
		&children.Declaration[*scope, *corev1.ConfigMap]{
			Type:       c.ConfigMaps().Type(tracker),
			When:       when(hasConfig),
			Desired:    by(desiredConfigMap),
			DeleteLast: true, // once no Pod template mounts it
		},
		deploymentOf(c, tracker),
		serviceOf(c, tracker),
		ingressOf(c, tracker),
		&children.Declaration[*scope, *autoscalingv2.HorizontalPodAutoscaler]{
			Type:    c.HorizontalPodAutoscalers().Type(tracker),
			When:    when(isAutoscaled),
			Desired: by(desiredAutoscaler),
		},
		disruptionBudgetOf(c, tracker),
	}
}

// by and when derive a child from the App alone.
func by[C children.Object](desired func(*v1alpha1.App) C) func(*scope) C {
	return func(p *scope) C { return desired(p.app) }
}

func when(is func(*v1alpha1.App) bool) func(*scope) bool {
	return func(p *scope) bool { return is(p.app) }
}

func deploymentOf(c kinds.Cluster, tracker *controller.Tracker) children.Child[*scope] {
	d := &children.Declaration[*scope, *appsv1.Deployment]{
		Type:    c.Deployments().Type(tracker),
		Hold:    func(p *scope) bool { return p.waiting != nil },
		Desired: func(p *scope) *appsv1.Deployment { return desiredDeployment(p.app, p.inputs) },
		Initially: func(p *scope, desired *appsv1.Deployment) {
			if isAutoscaled(p.app) {
				desired.Spec.Replicas = ptr.To(least(p.app))
			}
		},
		Keep: func(p *scope, desired, live *appsv1.Deployment) {
			keepTemplate(desired, live)
			// An autoscaler does not start from 0 replicas. A number that it has set since p.before
			// stays.
			if isAutoscaled(p.app) && ptr.Deref(live.Spec.Replicas, 1) == 0 {
				desired.Spec.Replicas = ptr.To(least(p.app))
			}
		},
		Applied: func(p *scope, live *appsv1.Deployment) { p.deployment = live },
	}
	d.Type.Yielded = [][]string{{"spec", "replicas"}} // to the autoscaler
	return d
}

func serviceOf(c kinds.Cluster, tracker *controller.Tracker) children.Child[*scope] {
	return &children.Declaration[*scope, *corev1.Service]{
		Type: c.Services().Type(tracker),
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

func ingressOf(c kinds.Cluster, tracker *controller.Tracker) children.Child[*scope] {
	d := &children.Declaration[*scope, *networkingv1.Ingress]{
		Type:    c.Ingresses().Type(tracker),
		When:    when(hasIngress),
		Desired: by(desiredIngress),
	}
	// The API server sets the default class of new Ingresses only. Without a class no controller
	// would serve the Ingress.
	d.Type.Yielded = [][]string{{"spec", "ingressClassName"}}
	return d
}

func disruptionBudgetOf(c kinds.Cluster, tracker *controller.Tracker) children.Child[*scope] {
	return &children.Declaration[*scope, *policyv1.PodDisruptionBudget]{
		Type: c.PodDisruptionBudgets().Type(tracker),
		When: when(needsBudget),
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
