package main

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/app"
	"windlass.dev/windlass/pkg/controller/at"
	"windlass.dev/windlass/pkg/controller/database"
	"windlass.dev/windlass/pkg/controller/externaldatabase"
	"windlass.dev/windlass/pkg/controller/platform"
	kindsscheme "windlass.dev/windlass/pkg/generated/clientset/versioned/scheme"
	"windlass.dev/windlass/pkg/generated/informers/externalversions"
	"windlass.dev/windlass/pkg/postgresql"
)

// informerFactories make the caches that all kinds share.
type informerFactories struct {
	kube     informers.SharedInformerFactory
	windlass externalversions.SharedInformerFactory
	metadata metadatainformer.SharedInformerFactory
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
		windlass: externalversions.NewSharedInformerFactoryWithOptions(c.windlass, 0,
			externalversions.WithNamespace(namespace),
			externalversions.WithTransform(dropManagedFields)),
		metadata: metadatainformer.NewFilteredSharedInformerFactory(c.metadata, 0, namespace, nil),
	}
}

// start starts the informers, which run until stop is closed.
func (f informerFactories) start(stop <-chan struct{}) {
	f.kube.Start(stop)
	f.windlass.Start(stop)
	f.metadata.Start(stop)
}

// controllers are those of all kinds.
type controllers struct {
	all []*controller.Controller
	// unconverted are those whose caches the API server fills without asking the
	// conversion webhook. Readiness waits for these alone: while no replica is ready,
	// the API server reaches no webhook.
	unconverted []*controller.Controller
}

// kinds returns a controller for every kind. This is the one place that names
// them.
func kinds(ctx context.Context, c *clients, f informerFactories, events controller.EventRecorder, o *options) (controllers, error) {
	ats, err := at.New(at.Clients{Kube: c.kube, Windlass: c.windlass}, at.Informers{Kube: f.kube, Windlass: f.windlass}, events, at.Options{DefaultImage: o.atImage})
	if err != nil {
		return controllers{}, fmt.Errorf("making the controller of At: %w", err)
	}
	apps, err := app.New(app.Clients{Kube: c.kube, Windlass: c.windlass},
		app.Informers{Kube: f.kube, Windlass: f.windlass, Metadata: f.metadata}, events, clock.RealClock{})
	if err != nil {
		return controllers{}, fmt.Errorf("making the controller of App: %w", err)
	}
	databases, err := database.New(database.Clients{Kube: c.kube, Windlass: c.windlass},
		database.Informers{Kube: f.kube, Windlass: f.windlass}, events, clock.RealClock{})
	if err != nil {
		return controllers{}, fmt.Errorf("making the controller of Database: %w", err)
	}
	connector, err := postgresql.NewConnector(o.externalDatabases)
	if err != nil {
		return controllers{}, err
	}
	externalDatabases, err := externaldatabase.New(externaldatabase.Clients{Kube: c.kube, Windlass: c.windlass},
		externaldatabase.Informers{Kube: f.kube, Windlass: f.windlass, Metadata: f.metadata},
		connector, events, clock.RealClock{})
	if err != nil {
		return controllers{}, fmt.Errorf("making the controller of ExternalDatabase: %w", err)
	}
	served := controllers{
		all:         []*controller.Controller{ats, apps, databases, externalDatabases},
		unconverted: []*controller.Controller{apps, databases, externalDatabases},
	}
	if o.namespace != "" {
		klog.FromContext(ctx).Info("Platforms are left alone: they are in no namespace, and --namespace limits this to one", "namespace", o.namespace)
		return served, nil
	}
	platforms, err := platform.New(platform.Clients{Kube: c.kube, Windlass: c.windlass},
		platform.Informers{Windlass: f.windlass, Metadata: f.metadata}, events, clock.RealClock{})
	if err != nil {
		return controllers{}, fmt.Errorf("making the controller of Platform: %w", err)
	}
	served.all = append(served.all, platforms)
	return served, nil
}

// groupVersions are those that must be installed.
var groupVersions = []schema.GroupVersion{cnatv1.SchemeGroupVersion, v1alpha1.SchemeGroupVersion}

// kindsScheme knows the types of all kinds, for events about them.
func kindsScheme() *runtime.Scheme { return kindsscheme.Scheme }

func dropManagedFields(obj any) (any, error) {
	if accessor, err := meta.Accessor(obj); err == nil {
		accessor.SetManagedFields(nil)
	}
	return obj, nil
}
