package app

import (
	"cmp"
	"context"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/kinds"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

// serviceOf declares the Service. While the Pod template must not change, an App that loses its ports keeps the
// Service, because the previous Pods still serve requests.
func serviceOf(c kinds.Cluster) children.Child[*scope] {
	return &children.Declaration[*scope, *corev1.Service]{
		Resource: c.Services(),
		When:     when(hasService),
		Hold:     func(p *scope) bool { return p.hold != nil && !hasService(p.app) },
		Desired:  func(p *scope) *corev1.Service { return desiredService(p.app, p.podSelector()) },
		Adopt: func(
			_ context.Context, p *scope, desired, live *corev1.Service, _ func(*corev1.Service) (*corev1.Service, error),
		) error {
			return adoptService(p, desired, live)
		},
		Keep: func(p *scope, desired, live *corev1.Service) {
			keepServiceSelector(p, desired, live)
			if d := p.observed.deployment; d != nil {
				keepTargets(p.app, d, p.hold != nil, desired, live)
			}
		},
	}
}

// keepServiceSelector keeps the selector of a Service while Pods of an adopted Deployment may lack appLabel. The
// selector of the Service can have more labels than the selector of the Deployment, and then selects no Pods of other
// Deployments.
func keepServiceSelector(p *scope, desired, live *corev1.Service) {
	if live.Spec.Selector[appLabel] == p.app.Name { // `kubectl rollout undo` can restore AdoptedAnnotation
		desired.Spec.Selector[appLabel] = p.app.Name
		return
	}
	d := p.deployment()
	if d == nil || !isAdopted(d) || len(live.Spec.Selector) == 0 {
		return
	}
	if isPart(live.Spec.Selector, d.Spec.Template.Labels) {
		desired.Spec.Selector = maps.Clone(live.Spec.Selector)
	}
}

// keepTargets lets a port of the Service lead to the number of the container's port while Pods have this number under
// another name. Otherwise, the Service would lead to no Pod after the port gets another name, until new Pods are ready.
// While the template is held, a port that has another name and another number keeps its target, too. d is the
// Deployment before the reconcile. Its recorded template counts, because other clients can change its
// template.
func keepTargets(app *v1alpha1.App, d *appsv1.Deployment, isHeld bool, desired, live *corev1.Service) {
	isSame := func(a, b corev1.ServicePort) bool { return a.TargetPort == b.TargetPort }
	if slices.EqualFunc(desired.Spec.Ports, live.Spec.Ports, isSame) {
		return
	}
	last, _ := pods.LastTemplate(d)
	// The template that an adopted Deployment keeps has no annotation with the name of the container.
	container := cmp.Or(containerIn(last), pods.Container(last, containerOf(app)))
	if container == nil {
		return
	}
	for i, p := range portsOf(app) {
		number := intstr.FromInt32(p.Port)
		hasName := hasPort(*container, p)
		hasNumber := slices.ContainsFunc(container.Ports, func(is corev1.ContainerPort) bool {
			return is.ContainerPort == p.Port && is.Protocol == p.Protocol
		})
		leadsToNumber := slices.ContainsFunc(live.Spec.Ports, func(is corev1.ServicePort) bool {
			return is.TargetPort == number && is.Protocol == p.Protocol
		})
		before := slices.IndexFunc(live.Spec.Ports, func(is corev1.ServicePort) bool {
			return is.Port == p.ServicePort && is.Protocol == p.Protocol
		})
		switch {
		case hasNumber && (!hasName || leadsToNumber && !isRolledOut(d)):
			desired.Spec.Ports[i].TargetPort = number
		case !hasNumber && !hasName && isHeld && before >= 0:
			desired.Spec.Ports[i].TargetPort = live.Spec.Ports[before].TargetPort
		}
	}
}
