package main

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/at"
	cnatscheme "windlass.dev/windlass/pkg/generated/clientset/versioned/scheme"
	"windlass.dev/windlass/pkg/generated/informers/externalversions"
)

// informerFactories make the caches that all kinds share.
type informerFactories struct {
	kube informers.SharedInformerFactory
	cnat externalversions.SharedInformerFactory
}

// newFactories returns factories whose caches hold, of built-in types, only what
// is made here, and of nothing the managed fields, which no code reads.
func newFactories(c *clients, namespace string) informerFactories {
	return informerFactories{
		kube: informers.NewSharedInformerFactoryWithOptions(c.kube, 0,
			informers.WithNamespace(namespace),
			informers.WithTransform(dropManagedFields),
			informers.WithTweakListOptions(func(opts *metav1.ListOptions) {
				opts.LabelSelector = controller.ManagedByLabel + "=" + controller.ManagedByWindlass
			})),
		cnat: externalversions.NewSharedInformerFactoryWithOptions(c.cnat, 0,
			externalversions.WithNamespace(namespace),
			externalversions.WithTransform(dropManagedFields)),
	}
}

// start starts the informers, which run until stop is closed.
func (f informerFactories) start(stop <-chan struct{}) {
	f.kube.Start(stop)
	f.cnat.Start(stop)
}

// kinds returns a controller for every kind. This is the one place that names
// them.
func kinds(c *clients, f informerFactories, events controller.EventRecorder, o *options) ([]*controller.Controller, error) {
	ats, err := at.New(c.kube, c.cnat, f.kube, f.cnat, events, at.Options{DefaultImage: o.atImage})
	if err != nil {
		return nil, fmt.Errorf("making the controller of At: %w", err)
	}
	return []*controller.Controller{ats}, nil
}

// synced are the caches that must be filled before this process is ready.
func synced(f informerFactories) []cache.InformerSynced {
	return []cache.InformerSynced{
		f.cnat.Cnat().V1().Ats().Informer().HasSynced,
		f.kube.Core().V1().Pods().Informer().HasSynced,
	}
}

// kindsScheme knows the types of all kinds, for events about them.
func kindsScheme() *runtime.Scheme { return cnatscheme.Scheme }

func dropManagedFields(obj any) (any, error) {
	if accessor, err := meta.Accessor(obj); err == nil {
		accessor.SetManagedFields(nil)
	}
	return obj, nil
}
