package app

import (
	"cmp"
	"context"
	"fmt"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

// adoptedAnnotation is an annotation of an adopted Deployment until all of its Pods have appLabel. If the Deployment
// keeps its Pods, the value has the digests of the App's Pod template, and of the template that the Deployment keeps
// instead. Otherwise it is empty.
const adoptedAnnotation = controller.AnnotationDomain + "/adopted-template"

// isAdopted reports whether a Deployment was adopted and may have Pods without appLabel.
func isAdopted(d *appsv1.Deployment) bool {
	_, found := d.Annotations[adoptedAnnotation]
	return found
}

// isRolledOut reports whether all Pods of a Deployment have its template.
func isRolledOut(d *appsv1.Deployment) bool {
	return d.Status.ObservedGeneration >= d.Generation && d.Status.UpdatedReplicas == d.Status.Replicas
}

// podSelector returns the labels by which the Service and the PodDisruptionBudget select the Pods: the selector of the
// Deployment, and appLabel unless Pods may lack it.
func (p *scope) podSelector() map[string]string {
	d := cmp.Or(p.applied.deployment, p.observed.deployment)
	if d == nil || d.Spec.Selector == nil {
		return podSelectorOf(p.app)
	}
	selector := maps.Clone(d.Spec.Selector.MatchLabels)
	if !isAdopted(d) {
		selector[appLabel] = p.app.Name
	}
	return selector
}

// keepSelector keeps the selector of an adopted Deployment, because it is immutable, and adds its labels to the Pods.
func keepSelector(app *v1alpha1.App, desired, live *appsv1.Deployment) {
	if isAdopted(live) && (live.Spec.Template.Labels[appLabel] != app.Name || !isRolledOut(live)) {
		metav1.SetMetaDataAnnotation(&desired.ObjectMeta, adoptedAnnotation, "")
	}
	if live.Spec.Selector == nil || equality.Semantic.DeepEqual(live.Spec.Selector, desired.Spec.Selector) {
		return
	}
	desired.Spec.Selector = live.Spec.Selector.DeepCopy()
	all := maps.Clone(desired.Spec.Template.Labels)
	maps.Copy(all, live.Spec.Selector.MatchLabels)
	desired.Spec.Template.Labels = all
}

// adoption adopts Deployments.
type adoption struct{ kube kubernetes.Interface }

// deployment lets an adopted Deployment keep its Pods if their template differs from the desired template in operator
// fields alone. It returns an error if the Deployment cannot be adopted, or if the Service would lose its Pods.
func (a adoption) deployment(
	ctx context.Context, p *scope, desired, live *appsv1.Deployment,
	try func(*appsv1.Deployment) (*appsv1.Deployment, error),
) error {
	if reason := unusable(live.Spec.Selector); reason != "" {
		return controller.Stalled(messageSelector.Error(live.Namespace+"/"+live.Name, reason), adoptionRecheck)
	}
	// The next reconcile sets the number of replicas, if no autoscaler of somebody else sets it.
	desired.Spec.Replicas = nil
	// With the defaults of the API server, the desired template can be compared with the live template.
	tried, err := try(desired)
	if err != nil {
		return err
	}
	if live.Spec.Template.Labels[appLabel] != p.app.Name {
		metav1.SetMetaDataAnnotation(&desired.ObjectMeta, adoptedAnnotation, "")
	}
	if p.app.Spec.BeforeRollout == nil && keepsPods(p.app, &tried.Spec.Template, &live.Spec.Template) {
		keepAdopted(desired, &live.Spec.Template, live.Spec.Template.Annotations)
	} else if err := a.checkService(ctx, desired, live); err != nil {
		return err
	}
	p.adopted = live
	return nil
}

// unusable says why the selector of a Deployment cannot be that of an App, or returns "".
func unusable(selector *metav1.LabelSelector) string {
	switch {
	case selector == nil || len(selector.MatchExpressions) > 0:
		return "has matchExpressions, which the selector of a Service cannot have"
	case cmp.Or(selector.MatchLabels[controller.ManagedByLabel], controller.ManagedByWindlass) !=
		controller.ManagedByWindlass:
		return "has the label " + controller.ManagedByLabel + ", by which the operator finds Pods"
	}
	return ""
}

// checkService returns an error if the Service of the App selects the Pods of live, but not those of desired.
func (a adoption) checkService(ctx context.Context, desired, live *appsv1.Deployment) error {
	service, err := a.kube.CoreV1().Services(live.Namespace).Get(ctx, live.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading Service %s/%s, which may select the adopted Pods: %w", live.Namespace, live.Name, err)
	}
	selector := labels.SelectorFromSet(service.Spec.Selector)
	if selector.Empty() || !selector.Matches(labels.Set(live.Spec.Template.Labels)) ||
		selector.Matches(labels.Set(desired.Spec.Template.Labels)) {
		return nil
	}
	return controller.Stalled(messageLostLabels.Error(live.Namespace+"/"+live.Name, service.Name, selector.String()),
		adoptionRecheck)
}

// keepsPods reports whether the live template of a Deployment differs from the desired template only in operator fields
// that the App does not set, and in labels and annotations that the App does not set.
func keepsPods(app *v1alpha1.App, desired, live *corev1.PodTemplateSpec) bool {
	name := containerOf(app)
	if !equality.Semantic.DeepEqual(userFields(desired, name), userFields(live, name)) {
		return false
	}
	// The Pods of a previous App may have previous inputs.
	if inputs := live.Annotations[inputsDigestAnnotation]; (inputs != "" || app.Spec.DatabaseRef != nil) &&
		inputs != desired.Annotations[inputsDigestAnnotation] {
		return false
	}
	plain := app.DeepCopy()
	plain.Spec.PodTemplate, plain.Spec.Shutdown = nil, nil
	chosen, err := desiredTemplate(plain)
	set, err2 := desiredTemplate(app)
	if err != nil || err2 != nil {
		return false
	}
	byDefault, bySpec := operatorValues(chosen, name), operatorValues(set, name)
	want, is := operatorValues(desired, name), operatorValues(live, name)
	for i := range bySpec {
		isSet := !equality.Semantic.DeepEqual(byDefault[i], bySpec[i])
		if isSet && !equality.Semantic.DeepEqual(want[i], is[i]) {
			return false
		}
	}
	over := ptr.Deref(app.Spec.PodTemplate, cnatv1.PodTemplate{}).Metadata
	return isPart(over.Labels, live.Labels) && isPart(over.Annotations, live.Annotations)
}

// userFields returns a Pod template without operator fields, labels and annotations. container is the name of the
// container of the App. A container without a security context gets an empty one, which means the same: podTemplate can
// empty a security context, but not remove it.
func userFields(template *corev1.PodTemplateSpec, container string) *corev1.PodTemplateSpec {
	template = template.DeepCopy()
	template.Annotations = map[string]string{pods.ContainerAnnotation: container}
	operatorFields(template)
	template.Annotations = nil
	template.Spec.SecurityContext = cmp.Or(template.Spec.SecurityContext, &corev1.PodSecurityContext{})
	for _, containers := range [][]corev1.Container{template.Spec.InitContainers, template.Spec.Containers} {
		for i := range containers {
			containers[i].SecurityContext = cmp.Or(containers[i].SecurityContext, &corev1.SecurityContext{})
		}
	}
	return template
}

// operatorValues returns the values of the operator fields in the spec of a template. container is the name of the
// container of the App.
func operatorValues(template *corev1.PodTemplateSpec, container string) [6]any {
	c := ptr.Deref(pods.Container(template, container), corev1.Container{})
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

// keepAdopted sets the template of a desired Deployment to kept, until the desired template changes. annotations are
// the live annotations of the template, which other clients change, for example `kubectl rollout restart`.
func keepAdopted(desired *appsv1.Deployment, kept *corev1.PodTemplateSpec, annotations map[string]string) {
	mark := adoptedMark(&desired.Spec.Template, kept)
	desired.Spec.Template = *kept.DeepCopy()
	desired.Spec.Template.Annotations = maps.Clone(annotations)
	metav1.SetMetaDataAnnotation(&desired.ObjectMeta, adoptedAnnotation, mark)
}

// keepAdoptedTemplate keeps the recorded template of a Deployment that was adopted with its Pods, until the App changes
// its template. Users can edit the record and the annotations of a Deployment. keepAdoptedTemplate therefore compares
// the mark with the status, which is empty until the first template was applied.
func keepAdoptedTemplate(app *v1alpha1.App, desired, live *appsv1.Deployment) {
	last, known := pods.LastTemplate(live)
	mark := live.Annotations[adoptedAnnotation]
	if known && mark != "" && mark == adoptedMark(&desired.Spec.Template, last) &&
		cmp.Or(app.Status.TemplateDigest, mark) == mark {
		keepAdopted(desired, last, live.Spec.Template.Annotations)
	}
}

// adoptedMark returns the value of adoptedAnnotation.
func adoptedMark(desired, kept *corev1.PodTemplateSpec) string {
	kept = kept.DeepCopy()
	kept.Annotations = nil
	return digestOfTemplate(desired) + "." + digestOfJSON(kept)
}

// appliedDigest returns the value of status.templateDigest for a Deployment that was applied.
func appliedDigest(d *appsv1.Deployment) string {
	return cmp.Or(d.Spec.Template.Annotations[TemplateDigestAnnotation], d.Annotations[adoptedAnnotation])
}
