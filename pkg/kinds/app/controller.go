// Package app reconciles Apps: it creates, updates and deletes their ConfigMap, Deployment, Service,
// Ingress, HorizontalPodAutoscaler and PodDisruptionBudget.
package app

import (
	"time"

	"k8s.io/client-go/tools/cache"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/kinds"
)

// resync is how often an App is reconciled without an event.
const resync = 10 * time.Minute

// New returns the controller of App.
func New(c kinds.Cluster, r controller.Runtime) (*controller.Controller, error) {
	kind, err := declare(c, r, cache.SharedIndexInformer.HasSynced)
	if err != nil {
		return nil, err
	}
	return kind.Controller(r), nil
}

// declare returns the Kind that declares App to the engine. hasSynced reports whether a cache has synced.
func declare(c kinds.Cluster, r controller.Runtime, hasSynced func(cache.SharedIndexInformer) bool) (kind controller.Kind[*v1alpha1.App], err error) {
	apps := c.Own.Windlass().V1alpha1().Apps().Informer()
	refs, err := newNamed(c, apps)
	if err != nil {
		return kind, err
	}
	dbs, err := newDatabases(c, apps, hasSynced)
	if err != nil {
		return kind, err
	}
	cached, err := newPodCache(c)
	if err != nil {
		return kind, err
	}
	reconciler, run := newReconciler(c, r, refs, dbs, cached), newBeforeRollout(c, r, cached)
	return children.Kind[*v1alpha1.App, *scope]{
		Kind: controller.Kind[*v1alpha1.App]{
			GroupVersionKind: groupVersionKind,
			Informer:         apps,
			Client: func(namespace string) controller.Client[*v1alpha1.App] {
				return c.Windlass.WindlassV1alpha1().Apps(namespace)
			},
			Resync: resync,
		},
		References:   []children.Reference[*v1alpha1.App]{refs, dbs, cached},
		Scope:        newScope,
		Prepare:      reconciler.prepare,
		Children:     ownedBy(c, run),
		Finish:       reconciler.finish,
		Release:      run.Release,
		RequeueAfter: func(p *scope) time.Duration { return p.requeueAfter },
	}.Declare(), nil
}

var groupVersionKind = v1alpha1.SchemeGroupVersion.WithKind("App")
