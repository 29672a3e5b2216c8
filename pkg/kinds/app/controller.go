// Package app reconciles Apps: it creates and updates their ConfigMap, Deployment, Service, Ingress,
// HorizontalPodAutoscaler and PodDisruptionBudget.
package app

import (
	"time"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/controller/references"
	"windlass.dev/windlass/pkg/kinds"
)

// resync is how often an App is reconciled without an event.
const resync = 10 * time.Minute

// New returns the controller of App.
func New(c kinds.Cluster, r controller.Runtime) (*controller.Controller, error) {
	refs, err := newNamed(c)
	if err != nil {
		return nil, err
	}
	kind, err := declare(c, refs, newReconciler(c, refs))
	if err != nil {
		return nil, err
	}
	return kind.Controller(r), nil
}

// declare declares App to the engine.
func declare(c kinds.Cluster, refs *named, r *reconciler) (kind controller.Kind[*v1alpha1.App], err error) {
	apps := c.Own.Windlass().V1alpha1().Apps().Informer()
	referrers, err := references.NewIndex(apps, "references", referencesIn)
	if err != nil {
		return kind, err
	}
	return children.Kind[*v1alpha1.App, *scope]{
		Kind: controller.Kind[*v1alpha1.App]{
			GroupVersionKind: groupVersionKind,
			Informer:         apps,
			Client: func(namespace string) controller.Client[*v1alpha1.App] {
				return c.Windlass.WindlassV1alpha1().Apps(namespace)
			},
			Resync:     resync,
			References: refs.references(referrers),
		},
		Scope:    newScope,
		Prepare:  r.prepare,
		Children: func(tracker *controller.Tracker) []children.Child[*scope] { return ownedBy(c, tracker) },
		Inputs:   r.inputs,
		Finish:   finish,
	}.Declare(), nil
}

var groupVersionKind = v1alpha1.SchemeGroupVersion.WithKind("App")

// referencesIn returns the keys of the Secrets and ConfigMaps that an App refers to.
func referencesIn(app *v1alpha1.App) (keys []string) {
	for _, ref := range referencesOf(app) {
		keys = append(keys, indexed(ref, app.Namespace))
	}
	return keys
}

func indexed(ref reference, namespace string) string { return namespace + "/" + ref.String() }
