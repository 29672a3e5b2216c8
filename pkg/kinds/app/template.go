package app

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
	"windlass.dev/windlass/pkg/kinds/internal/podtemplate"
)

// desiredTemplate returns the Pod template of an App without the digests: the generated template with spec.podTemplate
// merged into it. An error says what is wrong with spec.podTemplate.
func desiredTemplate(app *v1alpha1.App) (*corev1.PodTemplateSpec, error) {
	template := &corev1.PodTemplateSpec{Spec: desiredPod(app)}
	if name := containerOf(app); name != defaultContainer {
		template.Annotations = map[string]string{pods.ContainerAnnotation: name}
	}
	setOperatorFields(app, template)
	return podtemplate.Merge(template, app.Spec.PodTemplate, rulesOf(containerOf(app)))
}

// rulesOf says what spec.podTemplate must not change. container is the name of the container of the App.
func rulesOf(container string) podtemplate.Rules {
	return podtemplate.Rules{
		Container: container,
		InSpec:    []podtemplate.Field[corev1.Container]{podtemplate.Image, podtemplate.Command, podtemplate.Args},
		PodInSpec: []podtemplate.Field[corev1.PodSpec]{podtemplate.ServiceAccountName},
	}
}

// setDigests sets the annotations of a Pod template that change with the template, and with the contents of the inputs.
func setDigests(app *v1alpha1.App, template *corev1.PodTemplateSpec, used contents) {
	if len(used) > 0 {
		metav1.SetMetaDataAnnotation(&template.ObjectMeta, inputsDigestAnnotation, used.digest())
	}
	if app.Spec.PodTemplate != nil || ptr.Deref(app.Spec.Shutdown, v1alpha1.AppShutdown{}) != (v1alpha1.AppShutdown{}) {
		podtemplate.SetOverrides(template, app.Spec.PodTemplate, app.Spec.Shutdown)
	}
	metav1.SetMetaDataAnnotation(&template.ObjectMeta, TemplateDigestAnnotation, digestOfTemplate(template))
}

// setOperatorFields sets the operator fields of a Pod template: the fields for which the operator chooses the default.
// spec.shutdown and spec.podTemplate can set some of these fields.
func setOperatorFields(app *v1alpha1.App, template *corev1.PodTemplateSpec) {
	template.Labels = podSelectorOf(app)
	template.Labels[controller.ManagedByLabel] = controller.ManagedByWindlass // so that the operator caches the Pods
	pods.CopyPlatformLabels(template.Labels, app)
	if app.Spec.ServiceAccountName == "" {
		template.Spec.AutomountServiceAccountToken = ptr.To(false)
	}
	template.Spec.EnableServiceLinks = ptr.To(false)
	delay, grace := shutdownOf(app)
	template.Spec.TerminationGracePeriodSeconds = ptr.To(delay + grace)
	for i := range template.Spec.Containers {
		container := &template.Spec.Containers[i]
		container.ImagePullPolicy = pods.PullPolicy(container.Image)
		container.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
		if delay > 0 {
			container.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{
				Sleep: &corev1.SleepAction{Seconds: delay},
			}}
		}
	}
}

// operatorFields removes the fields that setOperatorFields sets, even if they come from spec.shutdown or
// spec.podTemplate. It also removes labels that spec.podTemplate has added.
var operatorFields pods.OperatorFields = func(template *corev1.PodTemplateSpec) {
	template.Labels = nil
	delete(template.Annotations, TemplateDigestAnnotation)
	template.Spec.AutomountServiceAccountToken, template.Spec.EnableServiceLinks = nil, nil
	template.Spec.TerminationGracePeriodSeconds = nil
	if c := containerIn(template); c != nil {
		c.ImagePullPolicy, c.TerminationMessagePolicy, c.Lifecycle = "", "", nil
	}
}

// digestOfTemplate returns the value of TemplateDigestAnnotation for a template.
func digestOfTemplate(template *corev1.PodTemplateSpec) string {
	return digestOfJSON(operatorFields.Without(template))
}

// keepTemplate keeps the operator fields of a live Deployment until the App changes its template, so that an upgrade of
// the operator replaces no Pod. The fields come from the record, which users can edit: keepTemplate ignores a recorded
// template with a wrong digest, or without the labels of the App's Pods. In this case, the template gets the desired
// operator fields, so that drift is corrected.
func keepTemplate(app *v1alpha1.App, desired, live *appsv1.Deployment) {
	last, known := pods.LastTemplate(live)
	selector, err := metav1.LabelSelectorAsSelector(live.Spec.Selector)
	if !known || last.Annotations[TemplateDigestAnnotation] != digestOfTemplate(last) || err != nil ||
		!selector.Matches(labels.Set(last.Labels)) || last.Labels[appLabel] != app.Name {
		return
	}
	operatorFields.Keep(&desired.Spec.Template, last)
}

// holdTemplate replaces the Pod template of a desired Deployment by the template of a hold. It copies the annotations
// and the strategy that belong to the template from the live Deployment. Other fields, such as the number of replicas,
// still change.
func holdTemplate(desired, live *appsv1.Deployment, template *corev1.PodTemplateSpec) {
	desired.Spec.Template, desired.Spec.Strategy = *template, *live.Spec.Strategy.DeepCopy()
	for _, annotation := range []string{inputsAnnotation, SpecAnnotation} {
		delete(desired.Annotations, annotation)
		if value, found := live.Annotations[annotation]; found {
			metav1.SetMetaDataAnnotation(&desired.ObjectMeta, annotation, value)
		}
	}
}

// hasTemplateDrift reports whether live differs from the desired template although the App has not changed.
// lastApplied is the digest of the template that the operator applied last. The record does not show this drift: the
// record is an annotation of the Deployment, and `kubectl rollout undo` restores these annotations, too.
func hasTemplateDrift(lastApplied string, desired, live *appsv1.Deployment) bool {
	want, have := &desired.Spec.Template, &live.Spec.Template
	wantContainer, haveContainer := containerIn(want), pods.Container(have, containerNamedIn(want))
	if lastApplied == "" || want.Annotations[TemplateDigestAnnotation] != lastApplied ||
		wantContainer == nil || haveContainer == nil {
		return false
	}
	return have.Annotations[TemplateDigestAnnotation] != lastApplied || haveContainer.Image != wantContainer.Image ||
		!slices.Equal(haveContainer.Command, wantContainer.Command) || !slices.Equal(haveContainer.Args, wantContainer.Args)
}
