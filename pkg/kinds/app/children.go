package app

import (
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/kinds"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

// The names of children that others need.
const (
	nameBeforeRollout = "beforeRollout"
	nameConfigMap     = "ConfigMap"
	nameService       = "Service"
)

// ownedBy returns the declarations of an App's children, in the order in which they are applied. None is applied before
// the command that the first Deployment waits for. The Ingress needs the Service, because it must not lead to the Service
// of somebody else. The other children need neither the Deployment nor each other.
func ownedBy(c kinds.Cluster, run *beforeRollout) []children.Child[*scope] {
	service := children.Owns(c.Services(), by(desiredService))
	service.Needs = []string{nameBeforeRollout}
	return []children.Child[*scope]{
		run,
		&children.Declaration[*scope, *corev1.ConfigMap]{
			Resource: c.ConfigMaps(),
			Needs:    []string{nameBeforeRollout},
			Hold:     (*scope).holdsConfig,
			When:     when(hasConfig),
			Desired:  by(desiredConfigMap),
		},
		deploymentOf(c),
		service,
		ingressOf(c),
		&children.Declaration[*scope, *autoscalingv2.HorizontalPodAutoscaler]{
			Resource: c.HorizontalPodAutoscalers(),
			Needs:    []string{nameBeforeRollout},
			When:     when(isAutoscaled),
			Hold:     (*scope).holdsAutoscaler,
			Desired:  by(desiredAutoscaler),
		},
		&children.Declaration[*scope, *policyv1.PodDisruptionBudget]{
			Resource: c.PodDisruptionBudgets(),
			Needs:    []string{nameBeforeRollout},
			When:     when(needsBudget),
			Desired:  by(desiredDisruptionBudget),
		},
	}
}

// holdsAutoscaler reports whether the App has no Deployment. An autoscaler would scale a Deployment of somebody else.
func (p *scope) holdsAutoscaler() bool {
	return isAutoscaled(p.app) && p.deployment == nil && !p.hasDeployment()
}

// by and when adapt functions of the App to the fields Desired and When of a Declaration.
func by[C children.Object](desired func(*v1alpha1.App) C) func(*scope) C {
	return func(p *scope) C { return desired(p.app) }
}

func when(is func(*v1alpha1.App) bool) func(*scope) bool {
	return func(p *scope) bool { return is(p.app) }
}

// deploymentOf declares the Deployment.
func deploymentOf(c kinds.Cluster) children.Child[*scope] {
	return &children.Declaration[*scope, *appsv1.Deployment]{
		Resource: c.Deployments(),
		Needs:    []string{nameBeforeRollout, nameConfigMap},
		Hold:     func(p *scope) bool { return p.waiting != nil || p.held != nil && p.kept() == nil },
		Desired: func(p *scope) *appsv1.Deployment {
			desired := desiredDeployment(p.app, p.inputs)
			if p.autoscaler != nil {
				desired.Spec.Replicas = nil
			}
			if p.held != nil {
				keepFormerTemplate(desired, p.before, p.kept())
			}
			return desired
		},
		Initially: func(p *scope, desired *appsv1.Deployment) {
			if desired.Spec.Replicas == nil {
				desired.Spec.Replicas = ptr.To(least(p.app))
			}
		},
		Keep: func(p *scope, desired, live *appsv1.Deployment) {
			keepTemplate(p.app, desired, live)
			p.drifted = nil
			if hasTemplateDrift(p.app.Status.TemplateDigest, desired, live) {
				p.drifted = desired
			}
			// An autoscaler does not scale up from 0 replicas. The decision depends on live and not on p.before,
			// because the autoscaler may have set the number after prepare read p.before.
			toZero := p.autoscaler != nil && scalesToZero(p.autoscaler)
			if desired.Spec.Replicas == nil && !toZero && ptr.Deref(live.Spec.Replicas, 1) == 0 {
				desired.Spec.Replicas = ptr.To(least(p.app))
			}
		},
		Applied: func(p *scope, live *appsv1.Deployment) { p.deployment = live },
		Yielded: [][]string{{"spec", "replicas"}, pods.RestartedAt}, // to the autoscaler and to kubectl
	}
}

func ingressOf(c kinds.Cluster) children.Child[*scope] {
	return &children.Declaration[*scope, *networkingv1.Ingress]{
		Resource: c.Ingresses(),
		Needs:    []string{nameService},
		When:     when(hasIngress),
		Desired:  by(desiredIngress),
		// The API server sets the default class only when an Ingress is created. If the operator removed the
		// field, no controller would serve the Ingress.
		Yielded: [][]string{{"spec", "ingressClassName"}},
	}
}
