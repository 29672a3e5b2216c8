// Package memcached reconciles Memcacheds: it creates and updates their Service and Deployment.
package memcached

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/controller/cluster"
	"windlass.dev/windlass/pkg/controller/references"
	"windlass.dev/windlass/pkg/controller/rollout"

	"example.com/memcached/pkg/apis/cache/v1alpha1"
	"example.com/memcached/pkg/generated/clientset/versioned"
	"example.com/memcached/pkg/generated/informers/externalversions"
)

// scope is the state that the steps of one reconcile share.
type scope struct {
	children.Owner
	memcached  *v1alpha1.Memcached
	arguments  string             // from the ConfigMap that argumentsFrom names
	deployment *appsv1.Deployment // nil until the Deployment was applied
}

// Declare returns the declaration of Memcached.
func Declare(
	c cluster.Cluster, client versioned.Interface, own externalversions.SharedInformerFactory,
) (kind controller.Kind[*v1alpha1.Memcached], err error) {
	memcacheds := own.Cache().V1alpha1().Memcacheds().Informer()
	configMaps, err := references.NewConfigMaps(c, memcacheds, configMapsOf, argumentsIn)
	if err != nil {
		return kind, err
	}
	deployment := children.Owns(c.Deployments(), desiredDeployment)
	deployment.Applied = func(s *scope, live *appsv1.Deployment) { s.deployment = live }
	return children.Kind[*v1alpha1.Memcached, *scope]{
		Kind: controller.Kind[*v1alpha1.Memcached]{
			GroupVersionKind: v1alpha1.SchemeGroupVersion.WithKind("Memcached"),
			Informer:         memcacheds,
			Lister:           controller.ListerOf(own.Cache().V1alpha1().Memcacheds().Lister().Memcacheds),
			Client:           controller.ClientOf(client.CacheV1alpha1().Memcacheds),
			References:       configMaps.Watches(),
			Resync:           10 * time.Minute,
		},
		Scope: func(m *v1alpha1.Memcached, owner children.Owner) *scope { return &scope{Owner: owner, memcached: m} },
		Prepare: func(ctx context.Context, s *scope) (err error) {
			for _, name := range configMapsOf(s.memcached) {
				s.arguments, err = configMaps.Get(ctx, s.memcached, name)
			}
			return err
		},
		Children: []children.Child[*scope]{children.Owns(c.Services(), desiredService), deployment},
		Finish:   finish,
	}.Declare()
}

// configMapsOf returns the names of the ConfigMaps that a Memcached refers to.
func configMapsOf(m *v1alpha1.Memcached) []string {
	if m.Spec.ArgumentsFrom == nil {
		return nil
	}
	return []string{m.Spec.ArgumentsFrom.Name}
}

// argumentsIn returns the arguments in a ConfigMap. It limits their size, because they are kept in memory.
func argumentsIn(c *corev1.ConfigMap) (string, error) {
	text := c.Data["arguments"]
	if len(text) > 4096 {
		err := fmt.Errorf("the arguments in ConfigMap %s have more than 4096 bytes: shorten them", c.Name)
		return "", controller.Stalled(err, 0)
	}
	return text, nil
}

// finish sets the status, and returns the result of the reconcile.
func finish(s *scope, err error) (controller.Result, error) {
	s.memcached.Status.Selector = labels.FormatLabels(selectorOf(s))
	if d := s.deployment; err == nil {
		s.memcached.Status.Replicas, s.memcached.Status.ReadyReplicas = d.Status.Replicas, d.Status.ReadyReplicas
		rollout.Summarize(d, ptr.Deref(d.Spec.Replicas, 1)).SetOn(s.memcached)
	}
	return controller.Result{}, err
}
