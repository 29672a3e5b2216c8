// Package app reconciles Apps: it creates and updates their ConfigMap, Deployment, Service, Ingress,
// HorizontalPodAutoscaler and PodDisruptionBudget.
package app

import (
	"fmt"
	"time"

	"k8s.io/client-go/tools/cache"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/controller/cluster"
)

// resync is how often an App is reconciled without an event.
const resync = 10 * time.Minute

// New returns the controller of App.
func New(c cluster.Cluster, r controller.Runtime) (*controller.Controller, error) {
	kind, err := declare(c)
	if err != nil {
		return nil, err
	}
	return kind.Controller(r), nil
}

// declare declares App to the engine.
func declare(c cluster.Cluster) (kind controller.Kind[*v1alpha1.App], err error) {
	apps, tracker := c.Own.Windlass().V1alpha1().Apps().Informer(), controller.NewTracker()
	if err := apps.AddIndexers(cache.Indexers{referencesIndex: referencesIn}); err != nil {
		return kind, fmt.Errorf("indexing Apps: %w", err)
	}
	refs, err := newNamed(c)
	if err != nil {
		return kind, err
	}
	r := &reconciler{apps: c.Windlass.WindlassV1alpha1(), known: refs.known, read: refs.read, digests: newDigests()}
	r.children, r.deployments = ownedBy(c, tracker)
	return controller.Kind[*v1alpha1.App]{
		GroupVersionKind: groupVersionKind,
		Informer:         apps,
		Client: func(namespace string) controller.Client[*v1alpha1.App] {
			return c.Windlass.WindlassV1alpha1().Apps(namespace)
		},
		Reconciler: r,
		Tracker:    tracker,
		Resync:     resync,
		Owned:      children.Informers(r.children),
		References: refs.references(apps),
	}, nil
}

var groupVersionKind = v1alpha1.SchemeGroupVersion.WithKind("App")

// referencesIndex finds Apps by the Secrets and ConfigMaps that they refer to.
const referencesIndex = "references"

func referencesIn(obj any) ([]string, error) {
	app, ok := obj.(*v1alpha1.App)
	if !ok {
		return nil, nil
	}
	var keys []string
	for _, ref := range referencesOf(app) {
		keys = append(keys, indexed(ref, app.Namespace))
	}
	return keys, nil
}

func indexed(ref reference, namespace string) string { return namespace + "/" + ref.String() }
