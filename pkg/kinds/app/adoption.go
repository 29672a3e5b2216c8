package app

import (
	"cmp"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

// adoptedAnnotation is an annotation of an adopted Deployment that keeps its Pods. Its value has the digests of the
// App's Pod template, and of the template that the Deployment keeps instead.
const adoptedAnnotation = controller.AnnotationDomain + "/adopted-template"

// adoptionRecheck is how often an App is reconciled that waits for its Deployment before it adopts a Service.
const adoptionRecheck = 5 * time.Second

// podSelector returns the labels by which the Service and the PodDisruptionBudget select the Pods: the labels of
// podSelectorOf, or the selector of an adopted Deployment.
func (p *scope) podSelector() map[string]string {
	d := cmp.Or(p.applied.deployment, p.observed.deployment)
	if d == nil || d.Spec.Selector == nil || maps.Equal(d.Spec.Selector.MatchLabels, selectorOf(p.app)) {
		return podSelectorOf(p.app)
	}
	return maps.Clone(d.Spec.Selector.MatchLabels)
}

// keepSelector keeps the selector of a live Deployment, because it is immutable, and adds its labels to the Pods. The
// selector of an adopted Deployment differs from that of other Deployments.
func keepSelector(desired, live *appsv1.Deployment) {
	if live.Spec.Selector == nil || equality.Semantic.DeepEqual(live.Spec.Selector, desired.Spec.Selector) {
		return
	}
	desired.Spec.Selector = live.Spec.Selector.DeepCopy()
	labels := maps.Clone(desired.Spec.Template.Labels)
	maps.Copy(labels, live.Spec.Selector.MatchLabels)
	desired.Spec.Template.Labels = labels
}

// adoptDeployment lets an adopted Deployment keep its Pods if their template differs from the desired template in
// operator fields alone.
func adoptDeployment(
	p *scope, desired, live *appsv1.Deployment, try func(*appsv1.Deployment) (*appsv1.Deployment, error),
) error {
	if s := live.Spec.Selector; s == nil || len(s.MatchExpressions) > 0 {
		return controller.Stalled(messageSelector.Error(live.Namespace+"/"+live.Name), 0)
	}
	// With the defaults of the API server, the desired template can be compared with the live template.
	tried, err := try(desired)
	if err != nil {
		return err
	}
	p.adopted = live
	if p.app.Spec.BeforeRollout == nil && keepsPods(p.app, &tried.Spec.Template, &live.Spec.Template) {
		keepAdopted(desired, &live.Spec.Template)
	}
	return nil
}

// keepsPods reports whether the live template of a Deployment differs from the desired template only in operator fields
// that the App does not set, and in labels and annotations that the App does not set.
func keepsPods(app *v1alpha1.App, desired, live *corev1.PodTemplateSpec) bool {
	without := func(template *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
		template = operatorFields.Without(template)
		template.Annotations = nil
		// No security context is the same as an empty one, but patches can only set an empty one.
		template.Spec.SecurityContext = cmp.Or(template.Spec.SecurityContext, &corev1.PodSecurityContext{})
		for _, containers := range [][]corev1.Container{template.Spec.InitContainers, template.Spec.Containers} {
			for i := range containers {
				containers[i].SecurityContext = cmp.Or(containers[i].SecurityContext, &corev1.SecurityContext{})
			}
		}
		return template
	}
	if !equality.Semantic.DeepEqual(without(desired), without(live)) {
		return false
	}
	plain := app.DeepCopy()
	plain.Spec.PodTemplate, plain.Spec.Shutdown = nil, nil
	chosen, err := desiredTemplate(plain)
	set, err2 := desiredTemplate(app)
	if err != nil || err2 != nil {
		return false
	}
	byDefault, bySpec := operatorValues(chosen), operatorValues(set)
	want, is := operatorValues(desired), operatorValues(live)
	for i := range bySpec {
		isSet := !equality.Semantic.DeepEqual(byDefault[i], bySpec[i])
		if isSet && !equality.Semantic.DeepEqual(want[i], is[i]) {
			return false
		}
	}
	over := ptr.Deref(app.Spec.PodTemplate, cnatv1.PodTemplate{}).Metadata
	return isPart(over.Labels, live.Labels) && isPart(over.Annotations, live.Annotations)
}

// operatorValues returns the values of the operator fields in the spec of a template.
func operatorValues(template *corev1.PodTemplateSpec) [6]any {
	c := ptr.Deref(pods.Container(template, containerName), corev1.Container{})
	return [6]any{
		template.Spec.AutomountServiceAccountToken, template.Spec.EnableServiceLinks,
		template.Spec.TerminationGracePeriodSeconds, c.ImagePullPolicy, c.TerminationMessagePolicy, c.Lifecycle,
	}
}

// isPart reports whether all has every entry of part.
func isPart(part, all map[string]string) bool {
	for key, value := range part {
		if is, found := all[key]; !found || is != value {
			return false
		}
	}
	return true
}

// keepAdopted sets the template of a desired Deployment to kept, until the desired template changes.
func keepAdopted(desired *appsv1.Deployment, kept *corev1.PodTemplateSpec) {
	mark := adoptedMark(&desired.Spec.Template, kept)
	desired.Spec.Template = *kept.DeepCopy()
	metav1.SetMetaDataAnnotation(&desired.ObjectMeta, adoptedAnnotation, mark)
}

// keepAdoptedTemplate keeps the recorded template of a Deployment that was adopted with its Pods, until the App changes
// its template.
func keepAdoptedTemplate(desired, live *appsv1.Deployment) {
	last, known := pods.LastTemplate(live)
	if mark := live.Annotations[adoptedAnnotation]; known && mark == adoptedMark(&desired.Spec.Template, last) {
		keepAdopted(desired, last)
	}
}

// adoptedMark returns the value of adoptedAnnotation.
func adoptedMark(desired, kept *corev1.PodTemplateSpec) string {
	return digestOfTemplate(desired) + "." + digestOfJSON(kept)
}

// adoptService prevents the adoption of a Service until the Deployment is available. It lets each port of an adopted
// Service lead to the number of the container's port while Pods may lack the name of the port: see keepTargets.
func adoptService(p *scope, desired, live *corev1.Service) error {
	d := cmp.Or(p.applied.deployment, p.observed.deployment)
	if d == nil || !isAvailable(d) {
		return messageServiceWaits.Wait(adoptionRecheck, live.Namespace+"/"+live.Name, p.app.Name)
	}
	if isRolledOut(d) {
		return nil
	}
	for i, port := range portsOf(p.app) {
		if p.adopted == nil || !hasPort(&p.adopted.Spec.Template, port) {
			desired.Spec.Ports[i].TargetPort = intstr.FromInt32(port.Port)
		}
	}
	return nil
}

// hasPort reports whether a container of a template has a port with the name and protocol of a port of an App.
func hasPort(template *corev1.PodTemplateSpec, port v1alpha1.AppPort) bool {
	return slices.ContainsFunc(template.Spec.Containers, func(c corev1.Container) bool {
		return slices.ContainsFunc(c.Ports, func(is corev1.ContainerPort) bool {
			return is.Name == port.Name && is.Protocol == port.Protocol
		})
	})
}

// isAvailable reports whether a Deployment has enough available Pods, according to its status.
func isAvailable(d *appsv1.Deployment) bool {
	return slices.ContainsFunc(d.Status.Conditions, func(c appsv1.DeploymentCondition) bool {
		return c.Type == appsv1.DeploymentAvailable && c.Status == corev1.ConditionTrue
	})
}

// isRolledOut reports whether all Pods of a Deployment have its template.
func isRolledOut(d *appsv1.Deployment) bool {
	return d.Status.ObservedGeneration >= d.Generation && d.Status.UpdatedReplicas == d.Status.Replicas
}
