package app

import (
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/kinds"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

// applied has the results of applying the children.
type applied struct {
	// deployment is the Deployment after it was applied, or nil.
	deployment *appsv1.Deployment
	// autoscaler is the App's own HorizontalPodAutoscaler after it was applied, or nil.
	autoscaler *autoscalingv2.HorizontalPodAutoscaler
	// route is the route of the App after it was applied, or nil.
	route *route
	// drifted is the desired Deployment if another client had changed the Pod template, or nil.
	drifted *appsv1.Deployment
}

// Names of children that other children need.
const (
	nameConfigMap = "ConfigMap"
	nameClaims    = "PersistentVolumeClaim"
	nameService   = "Service"
)

// ownedBy returns the declarations of an App's children, in the order in which they are applied. The Deployment needs
// the ConfigMap and the claims. The Ingress and the route need the Service, so that they do not lead to a Service of
// somebody else. No other child needs another one.
func ownedBy(c kinds.Cluster, before *beforeRollout, volumes *volumeClaims) []children.Child[*scope] {
	before.deployment = deploymentOf(c)
	httpRoute, grpcRoute := routesOf(c)
	return []children.Child[*scope]{
		before,
		before.configs,
		volumes,
		before.deployment,
		serviceOf(c),
		ingressOf(c),
		httpRoute,
		grpcRoute,
		&children.Declaration[*scope, *autoscalingv2.HorizontalPodAutoscaler]{
			Resource: c.HorizontalPodAutoscalers(),
			When:     when(isAutoscaled),
			Hold:     holdsAutoscaler,
			Desired:  by(desiredAutoscaler),
			Applied: func(p *scope, live *autoscalingv2.HorizontalPodAutoscaler) {
				if p.Owns(live) { // and not one of somebody else, while the child is held
					p.applied.autoscaler = live
				}
			},
		},
		&children.Declaration[*scope, *policyv1.PodDisruptionBudget]{
			Resource: c.PodDisruptionBudgets(),
			When:     when(needsBudget),
			Desired: func(p *scope) *policyv1.PodDisruptionBudget {
				return desiredDisruptionBudget(p.app, p.podSelector())
			},
			Hold: func(p *scope) bool { return needsBudget(p.app) && hasNoDeployment(p) },
			Keep: func(p *scope, desired, live *policyv1.PodDisruptionBudget) {
				if s := live.Spec.Selector; s != nil && s.MatchLabels[appLabel] == p.app.Name { // as in keepServiceSelector
					desired.Spec.Selector.MatchLabels[appLabel] = p.app.Name
				}
			},
		},
		children.Step[*scope]{Name: "sizes", Needs: []string{nameClaims}, Apply: reportSizes},
	}
}

// holdsAutoscaler reports whether the App has no Deployment for its desired autoscaler, which could then scale a
// Deployment of somebody else. An autoscaler that is not desired is deleted in any case.
func holdsAutoscaler(p *scope) bool { return isAutoscaled(p.app) && hasNoDeployment(p) }

// hasNoDeployment reports whether the App has no Deployment, for example because somebody else has one of this name.
func hasNoDeployment(p *scope) bool {
	return p.deployment() == nil
}

// deploymentOf declares the Deployment.
func deploymentOf(c kinds.Cluster) *children.Declaration[*scope, *appsv1.Deployment] {
	indexer := c.HorizontalPodAutoscalers().Informer.GetIndexer()
	autoscalers := children.CacheOf[*autoscalingv2.HorizontalPodAutoscaler](indexer)
	return &children.Declaration[*scope, *appsv1.Deployment]{
		Resource: c.Deployments(),
		Needs:    []string{nameConfigMap, nameClaims},
		Hold:     func(p *scope) bool { return p.hold != nil && p.hold.template == nil },
		Desired: func(p *scope) *appsv1.Deployment {
			desired := desiredDeployment(p.app, p.observed.template, p.observed.contents)
			if p.observed.autoscaler != nil {
				desired.Spec.Replicas = nil
			}
			// The other fields still change. If the hold has no template, Hold keeps the whole Deployment as it is.
			if p.hold != nil {
				holdTemplate(desired, p.observed.deployment, p.hold.template)
			}
			return desired
		},
		Initially: func(p *scope, desired *appsv1.Deployment) {
			if desired.Spec.Replicas == nil {
				desired.Spec.Replicas = ptr.To(initialReplicas(p.app))
			}
		},
		Keep: func(p *scope, desired, live *appsv1.Deployment) {
			keepSelector(p.app, desired, live)
			keepTemplate(p.app, desired, live)
			keepAdoptedTemplate(p.app, desired, live)
			if hasTemplateDrift(p.app.Status.TemplateDigest, desired, live) {
				p.applied.drifted = desired
			}
			// Most autoscalers do not scale up from 0 replicas. The live number counts, and not that of p.observed.deployment,
			// because the autoscaler may have set the number after prepare read the Deployment.
			scaler := p.observed.autoscaler
			if own, err := autoscalers.Get(p.app.Namespace, p.app.Name); scaler == nil && err == nil && p.Owns(own) {
				scaler = own
			}
			toZero := scaler != nil && scalesToZero(scaler)
			if desired.Spec.Replicas == nil && !toZero && ptr.Deref(live.Spec.Replicas, 1) == 0 {
				desired.Spec.Replicas = ptr.To(initialReplicas(p.app))
			}
		},
		Adopt:   adoption{c.Kube}.deployment,
		Applied: func(p *scope, live *appsv1.Deployment) { p.applied.deployment = live },
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

// by and when adapt functions of the App to the fields Desired and When of a Declaration.
func by[C children.Object](desired func(*v1alpha1.App) C) func(*scope) C {
	return func(p *scope) C { return desired(p.app) }
}

func when(is func(*v1alpha1.App) bool) func(*scope) bool {
	return func(p *scope) bool { return is(p.app) }
}
