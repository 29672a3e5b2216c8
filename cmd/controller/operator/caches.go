package operator

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata/metadatainformer"

	"windlass.dev/windlass/pkg/cache/budget"
	"windlass.dev/windlass/pkg/cache/lenient"
	"windlass.dev/windlass/pkg/cache/packed"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/cluster"
	"windlass.dev/windlass/pkg/generated/informers/externalversions"
)

// Caches are the informers that all kinds share.
type Caches struct {
	kube     informers.SharedInformerFactory // what is made here
	windlass externalversions.SharedInformerFactory
	metadata metadatainformer.SharedInformerFactory // all there is of a type
	others   metadatainformer.SharedInformerFactory // what kube does not select
	limit    *budget.Budget                         // of kube and windlass
}

// NewCaches returns caches of one namespace, or of all if that is empty. They hold, of
// built-in types, only what is made here, packed, beside the metadata of what users may
// name, and of nothing the managed fields, which no code reads. What they hold of a namespace
// is bounded: see package budget.
func NewCaches(c Clients, namespace string) Caches {
	limit := &budget.Budget{}
	return Caches{
		limit: limit,
		kube: packed.NewFactory(c.Kube, limit, namespace, func(opts *metav1.ListOptions) {
			opts.LabelSelector = controller.ManagedByLabel + "=" + controller.ManagedByWindlass
		}),
		windlass: externalversions.NewSharedInformerFactoryWithOptions(c.Watched, 0,
			externalversions.WithNamespace(namespace),
			externalversions.WithTransform(lenient.Transform(limit))),
		metadata: metadatainformer.NewFilteredSharedInformerFactory(c.Metadata, 0, namespace, nil),
		others: metadatainformer.NewFilteredSharedInformerFactory(c.Metadata, 0, namespace, func(opts *metav1.ListOptions) {
			opts.LabelSelector = controller.ManagedByLabel + "!=" + controller.ManagedByWindlass
		}),
	}
}

// cluster is what kinds read and write by clients and these caches.
func (c Caches) cluster(clients Clients) cluster.Cluster {
	return cluster.Cluster{Kube: clients.Kube, Windlass: clients.Windlass, Owned: c.kube, Own: c.windlass, Others: c.others, All: c.metadata}
}

// Start starts the informers that kinds have asked for, which run until stop is closed.
func (c Caches) Start(stop <-chan struct{}) {
	c.kube.Start(stop)
	c.windlass.Start(stop)
	c.metadata.Start(stop)
	c.others.Start(stop)
}

// Shutdown waits until all informers have ended, after stop was closed.
func (c Caches) Shutdown() {
	c.kube.Shutdown()
	c.windlass.Shutdown()
	c.metadata.Shutdown()
	c.others.Shutdown()
}
