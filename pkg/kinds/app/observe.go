package app

import (
	"context"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"

	"windlass.dev/windlass/pkg/controller"
)

// observed is the state that a reconcile reads before its first write. It does not change afterwards.
type observed struct {
	// deployment is the cached Deployment of the App, or nil.
	deployment *appsv1.Deployment
	// foreign reports whether the cached Deployment with the name of the App belongs to somebody else.
	foreign bool
	// unmet is an error if the Pods lack a Secret, a ConfigMap or a usable database, or if spec.podTemplate is invalid,
	// and nil otherwise. If unmet is set, contents, template and autoscaler are unset.
	unmet error
	// contents has the contents of the inputs of the Pods.
	contents contents
	// template is the desired Pod template.
	template *corev1.PodTemplateSpec
	// autoscaler is the HorizontalPodAutoscaler of somebody else that sets the number of Pods, or nil.
	autoscaler *autoscalingv2.HorizontalPodAutoscaler
}

// allowsRun reports whether beforeRollout may run: the Pods lack no object, the Pod template is valid, and nobody else
// has a Deployment with the name of the App.
func (o *observed) allowsRun() bool { return o.unmet == nil && !o.foreign }

// missingRecheck is how often an App is reconciled while an object that its spec names is missing, in case the event of
// its creation is lost.
const missingRecheck = 5 * time.Second

// observe returns the state that the children depend on. It sends requests only for inputs whose content is not known
// yet and for autoscalers of somebody else.
func (r *reconciler) observe(ctx context.Context, p *scope) (o observed, err error) {
	var last contents
	d, err := r.deployments.Get(p.app.Namespace, p.app.Name)
	if err == nil && p.Owns(d) { // another error than NotFound is reported when the Deployment is applied
		o.deployment, last = d, contentsIn(d)
	}
	o.foreign = err == nil && o.deployment == nil && !p.MayAdopt(d)
	found, missing, err := r.inputs.find(p.app)
	if err != nil {
		return o, err
	}
	o.unmet = r.databases.check(p.app, found, o.deployment != nil)
	if o.unmet != nil { // the App has a databaseRef, and the database is the reason why its Secret is missing
		secret := input{kind: kindSecret, name: connectionSecret(p.app)}
		missing = slices.DeleteFunc(missing, func(in input) bool { return in == secret })
	}
	if len(missing) > 0 {
		o.unmet = controller.Join(o.unmet, messageMissing.Wait(missingRecheck, describe(missing)))
	}
	template, err := desiredTemplate(p.app)
	if err != nil {
		o.unmet = controller.Join(o.unmet, controller.Stalled(messagePodTemplate.Error(err), 0))
	}
	if o.unmet != nil {
		return o, nil
	}
	if o.contents, err = r.inputs.read(ctx, p.app, found, last); err != nil {
		return o, err
	}
	o.template = template
	setDigests(p.app, o.template, o.contents)
	o.autoscaler, err = r.findAutoscaler(ctx, p, o.deployment)
	return o, err
}
