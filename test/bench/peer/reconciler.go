// Package peer implements App with controller-runtime, as the documentation of controller-runtime and the
// scaffold of kubebuilder recommend: one Reconcile reads the cache, creates and updates each child with
// controllerutil.CreateOrUpdate, and writes the status if it has changed.
package peer

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
)

// Reconciler creates and updates the ConfigMap, the Deployment, the Service and the Ingress of an App.
type Reconciler struct {
	client.Client
	Scheme   *runtime.Scheme
	Recorder events.EventRecorder
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	log.FromContext(ctx).V(1).Info("Reconcile begins")
	var app v1alpha1.App
	if err := r.Get(ctx, request.NamespacedName, &app); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if app.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	configMap := &corev1.ConfigMap{ObjectMeta: nameOf(&app)}
	deployment := &appsv1.Deployment{ObjectMeta: nameOf(&app)}
	service := &corev1.Service{ObjectMeta: nameOf(&app)}
	ingress := &networkingv1.Ingress{ObjectMeta: nameOf(&app)}
	for _, child := range []struct {
		object client.Object
		set    func()
	}{
		{configMap, func() { setConfigMap(&app, configMap) }},
		{deployment, func() { setDeployment(&app, deployment) }},
		{service, func() { setService(&app, service) }},
		{ingress, func() { setIngress(&app, ingress) }},
	} {
		if err := r.ensure(ctx, &app, child.object, child.set); err != nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{}, r.updateStatus(ctx, &app, deployment)
}

// ensure creates or updates a child.
func (r *Reconciler) ensure(ctx context.Context, app *v1alpha1.App, child client.Object, set func()) error {
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, child, func() error {
		set()
		return controllerutil.SetControllerReference(app, child, r.Scheme)
	})
	if err != nil {
		return fmt.Errorf("creating or updating %T %s: %w", child, client.ObjectKeyFromObject(child), err)
	}
	return nil
}

// updateStatus writes the status if it has changed, and records an Event if the condition Ready has changed.
func (r *Reconciler) updateStatus(ctx context.Context, app *v1alpha1.App, deployment *appsv1.Deployment) error {
	before := app.Status.DeepCopy()
	setStatus(app, deployment)
	if equality.Semantic.DeepEqual(before, &app.Status) {
		return nil
	}
	if err := r.Status().Update(ctx, app); err != nil {
		return fmt.Errorf("writing the status of %s: %w", client.ObjectKeyFromObject(app), err)
	}
	ready := meta.FindStatusCondition(app.Status.Conditions, "Ready")
	if was := meta.FindStatusCondition(before.Conditions, "Ready"); was == nil || was.Status != ready.Status ||
		was.Reason != ready.Reason {
		r.Recorder.Eventf(app, nil, corev1.EventTypeNormal, ready.Reason, "Reconcile", "%s", ready.Message)
	}
	return nil
}
