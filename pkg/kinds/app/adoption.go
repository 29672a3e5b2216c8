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

// AdoptedAnnotation is an annotation of an adopted Deployment until all of its Pods have appLabel. If the Deployment
// keeps its Pods, the value has the digests of the App's Pod template, and of the template that the Deployment keeps
// instead. Otherwise the value is empty.
const AdoptedAnnotation = controller.AnnotationDomain + "/adopted-template"

// isAdopted reports whether a Deployment has AdoptedAnnotation.
func isAdopted(d *appsv1.Deployment) bool {
	_, found := d.Annotations[AdoptedAnnotation]
	return found
}

// isRolledOut reports whether all Pods of a Deployment have its template.
func isRolledOut(d *appsv1.Deployment) bool {
	return d.Status.ObservedGeneration >= d.Generation && d.Status.UpdatedReplicas == d.Status.Replicas
}

// podSelector returns the labels by which the Service and the PodDisruptionBudget select the Pods: the selector of the
// Deployment, and appLabel unless Pods may lack it.
func (p *scope) podSelector() map[string]string {
	d := p.deployment()
	if d == nil || d.Spec.Selector == nil {
		return podSelectorOf(p.app)
	}
	if isAdopted(d) {
		return maps.Clone(d.Spec.Selector.MatchLabels)
	}
	return labels.Merge(d.Spec.Selector.MatchLabels, labels.Set{appLabel: p.app.Name})
}

// keepSelector keeps the selector of an adopted Deployment, because a selector is immutable, and adds the labels of the
// selector to the Pod template. While Pods may lack appLabel, keepSelector also keeps AdoptedAnnotation, with an empty
// value: keepAdoptedTemplate sets the digests.
func keepSelector(app *v1alpha1.App, desired, live *appsv1.Deployment) {
	if isAdopted(live) && (live.Spec.Template.Labels[appLabel] != app.Name || !isRolledOut(live)) {
		metav1.SetMetaDataAnnotation(&desired.ObjectMeta, AdoptedAnnotation, "")
	}
	if live.Spec.Selector == nil || equality.Semantic.DeepEqual(live.Spec.Selector, desired.Spec.Selector) {
		return
	}
	desired.Spec.Selector = live.Spec.Selector.DeepCopy()
	desired.Spec.Template.Labels = labels.Merge(desired.Spec.Template.Labels, live.Spec.Selector.MatchLabels)
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
	isUnknown := controller.IsDryRunUnsupported(err)
	if err != nil && !isUnknown {
		return err
	}
	if err := a.checkService(ctx, desired, live); err != nil {
		return err
	}
	if live.Spec.Template.Labels[appLabel] != p.app.Name {
		metav1.SetMetaDataAnnotation(&desired.ObjectMeta, AdoptedAnnotation, "")
	}
	// The template of a previous App is like that of this App.
	isPrevious := live.Spec.Template.Annotations[TemplateDigestAnnotation] != ""
	if !isPrevious && !isUnknown && keepsPods(p.app, &tried.Spec.Template, &live.Spec.Template) {
		keepAdopted(desired, &live.Spec.Template, live.Spec.Template.Annotations)
	}
	p.adopted = live
	return nil
}

// unusable says why the selector of a Deployment cannot be that of an App, or returns "".
func unusable(selector *metav1.LabelSelector) string {
	if selector == nil || len(selector.MatchExpressions) > 0 {
		return "has matchExpressions, which the selector of a Service cannot have"
	}
	manager, found := selector.MatchLabels[controller.ManagedByLabel]
	if found && manager != controller.ManagedByWindlass {
		return "has the label " + controller.ManagedByLabel + ", by which the operator finds Pods"
	}
	return ""
}

// checkService returns an error if the Service with the name of the App selects Pods with the labels of the live
// template, and would not select Pods with the labels of the desired template.
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
// that the App does not set, and in labels and annotations that the App does not set. It returns false for an App with
// beforeRollout, whose command runs for the Pods to come, and for an App with a database: until its Pods have the
// digest of the connection Secret, no rotation could end.
func keepsPods(app *v1alpha1.App, desired, live *corev1.PodTemplateSpec) bool {
	if app.Spec.BeforeRollout != nil || app.Spec.DatabaseRef != nil {
		return false
	}
	name := containerOf(app)
	if !equality.Semantic.DeepEqual(userFields(desired, name), userFields(live, name)) {
		return false
	}
	plain := app.DeepCopy()
	plain.Spec.PodTemplate, plain.Spec.Shutdown = nil, nil
	chosen, err := desiredTemplate(plain)
	if err != nil {
		return false
	}
	byDefault, want, is := operatorValues(chosen, name), operatorValues(desired, name), operatorValues(live, name)
	for i := range want {
		isSet := !equality.Semantic.DeepEqual(byDefault[i], want[i])
		if isSet && !equality.Semantic.DeepEqual(want[i], is[i]) {
			return false
		}
	}
	over := ptr.Deref(app.Spec.PodTemplate, cnatv1.PodTemplate{}).Metadata
	return isPart(over.Labels, live.Labels) && isPart(over.Annotations, live.Annotations)
}

// userFields returns the spec of a Pod template without operator fields. container is the name of the container of the
// App. A container without a security context gets an empty one, which means the same: podTemplate can empty a security
// context, but not remove it.
func userFields(template *corev1.PodTemplateSpec, container string) corev1.PodSpec {
	template = template.DeepCopy()
	template.Annotations = map[string]string{pods.ContainerAnnotation: container} // for operatorFields
	operatorFields(template)
	spec := template.Spec
	spec.SecurityContext = cmp.Or(spec.SecurityContext, &corev1.PodSecurityContext{})
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			containers[i].SecurityContext = cmp.Or(containers[i].SecurityContext, &corev1.SecurityContext{})
		}
	}
	return spec
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
	return labels.SelectorFromSet(part).Matches(labels.Set(all))
}

// keepAdopted sets the template of a desired Deployment to kept, until the desired template changes. annotations are
// the live annotations of the template, which other clients change, for example `kubectl rollout restart`.
func keepAdopted(desired *appsv1.Deployment, kept *corev1.PodTemplateSpec, annotations map[string]string) {
	mark := adoptedMark(&desired.Spec.Template, kept)
	desired.Spec.Template = *kept.DeepCopy()
	desired.Spec.Template.Annotations = maps.Clone(annotations)
	metav1.SetMetaDataAnnotation(&desired.ObjectMeta, AdoptedAnnotation, mark)
}

// keepAdoptedTemplate keeps the recorded template of a Deployment that was adopted with its Pods, until the App changes
// its template. Users can edit the record and the annotations of a Deployment. keepAdoptedTemplate therefore compares
// the mark with the status, which is empty until the first template was applied.
func keepAdoptedTemplate(app *v1alpha1.App, desired, live *appsv1.Deployment) {
	last, known := pods.LastTemplate(live)
	mark := live.Annotations[AdoptedAnnotation]
	if known && mark != "" && mark == adoptedMark(&desired.Spec.Template, last) &&
		cmp.Or(app.Status.TemplateDigest, mark) == mark {
		keepAdopted(desired, last, live.Spec.Template.Annotations)
	}
}

// adoptedMark returns the value of AdoptedAnnotation.
func adoptedMark(desired, kept *corev1.PodTemplateSpec) string {
	return digestOfTemplate(desired) + markOfKept(kept)
}

// markOfKept returns the end of the value of AdoptedAnnotation for a template that a Deployment keeps.
func markOfKept(kept *corev1.PodTemplateSpec) string {
	kept = kept.DeepCopy()
	kept.Annotations = nil
	return "." + digestOfJSON(kept)
}

// appliedDigest returns the value of status.templateDigest for a Deployment that was applied.
func appliedDigest(d *appsv1.Deployment) string {
	return cmp.Or(d.Spec.Template.Annotations[TemplateDigestAnnotation], d.Annotations[AdoptedAnnotation])
}
