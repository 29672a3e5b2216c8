// Package app reconciles Apps: it creates, updates and deletes their ConfigMap, Deployment, Service, Ingress, route,
// HorizontalPodAutoscaler and PodDisruptionBudget, and creates the PersistentVolumeClaims of their volumes.
//
// A reconcile (reconcile.go) has four steps:
//  1. It reads the Deployment, the Secrets and ConfigMaps, the database and the autoscaler of the App (observe.go,
//     inputs.go, inputcache.go, database.go, autoscaler.go).
//  2. It runs the command of spec.beforeRollout (beforerollout.go). Until the command has succeeded, a hold (hold.go)
//     keeps the previous Pod template.
//  3. It applies the children (children.go, desired.go, config.go, claims.go, service.go, template.go). The fields
//     ports, probes, rollout, autoscaling, volumes and route of the spec are in ports.go, probes.go, rollout.go,
//     scaling.go, volumes.go and route.go.
//  4. It sets the status (status.go, pods.go, route_status.go).
//
// When an App is deleted, its claims stay or are deleted (finalize.go); garbage collection deletes its other children.
//
// A Deployment and a Service of somebody else can be adopted (adoption.go, adoption_service.go). A plan uses
// FieldsToKeepPods (adoption_advice.go).
//
// Users (users.go) tells the controllers of databases which Apps use a previous content of a connection Secret.
package app

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/tools/cache"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/kinds"
	"windlass.dev/windlass/pkg/kinds/internal/runonce"
)

// resync is how often an App is reconciled without an event.
const resync = 10 * time.Minute

var groupVersionKind = v1alpha1.SchemeGroupVersion.WithKind("App")

// New returns the controller of App.
func New(c kinds.Cluster, r controller.Runtime) (*controller.Controller, error) {
	kind, err := declare(c, r, cache.SharedIndexInformer.HasSynced)
	if err != nil {
		return nil, err
	}
	return kind.Controller(r)
}

// declare returns the Kind that declares App to the engine. hasSynced reports whether a cache has synced; tests replace
// it.
func declare(
	c kinds.Cluster, r controller.Runtime, hasSynced func(cache.SharedIndexInformer) bool,
) (kind controller.Kind[*v1alpha1.App], err error) {
	own := c.Kinds.Windlass().V1alpha1().Apps()
	apps := own.Informer()
	inputs, err := newInputCache(c, apps)
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
	client := controller.ClientOf[*v1alpha1.App](c.Windlass.WindlassV1alpha1().Apps)
	commands, err := runonce.New(c, r, "App", runContainer, runPodSuffix, client)
	if err != nil {
		return kind, err
	}
	configs, err := newConfigMaps(c, r.Clock)
	if err != nil {
		return kind, err
	}
	volumes, err := newVolumeClaims(c, apps, cached, r.Clock)
	if err != nil {
		return kind, err
	}
	before := &beforeRollout{commands: commands, configs: configs, clock: r.Clock}
	reconciler := &reconciler{
		kube: c.Kube, inputs: inputs, databases: dbs, beforeRollout: before, pods: cached, clock: r.Clock, events: r.Events,
		deployments: children.CacheOf[*appsv1.Deployment](c.Deployments().Informer.GetIndexer()),
	}
	owned := ownedBy(c, before, volumes) // sets before.deployment, which the finalizer uses
	return children.Kind[*v1alpha1.App, *scope]{
		Kind: controller.Kind[*v1alpha1.App]{
			GroupVersionKind: groupVersionKind,
			Informer:         apps,
			Lister:           controller.ListerOf(own.Lister().Apps),
			Client:           client,
			Finalizer:        finalizer{c.Windlass.WindlassV1alpha1(), before.deployment, volumes}.declare(),
			Resync:           resync,
			Release:          commands.Release,
			References: slices.Concat(inputs.References(), dbs.References(), cached.References(),
				[]controller.Reference{commands.Reference()}),
		},
		Scope:    newScope,
		Prepare:  reconciler.prepare,
		Children: owned,
		Finish:   reconciler.finish,
	}.Declare()
}
