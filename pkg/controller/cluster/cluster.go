// Package cluster gives kinds access to a cluster: the clients and caches that all kinds share.
package cluster

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"

	"windlass.dev/windlass/pkg/cache/budget"
	"windlass.dev/windlass/pkg/cache/packed"
	"windlass.dev/windlass/pkg/controller"
)

// Cluster is the client with which kinds read and write built-in types, and the caches that they read.
type Cluster struct {
	Kube kubernetes.Interface
	// ManagedBy is the value of the label app.kubernetes.io/managed-by of the objects that kinds own.
	// It defaults to controller.ManagedByWindlass.
	ManagedBy string

	// Owned caches the built-in objects that have this label and value.
	Owned informers.SharedInformerFactory
	// Others caches the metadata of the objects that Owned does not select: the data of Secrets and
	// ConfigMaps that users name is not cached.
	Others metadatainformer.SharedInformerFactory
	// All caches the metadata of the objects of a type, whatever their labels.
	All metadatainformer.SharedInformerFactory
}

// Options say what the caches of a Cluster hold.
type Options struct {
	// Namespace is the namespace of all cached objects. Empty means all namespaces.
	Namespace string
	// ManagedBy is that of Cluster. It must be unique among the operators of a cluster.
	ManagedBy string
	// Groups are the API groups of the operator's kinds. An object is cached whole if a kind of these
	// groups controls it, or if it has an annotation of one or of the engine. Other objects with the
	// label are cached by their identity alone.
	Groups []string
	// Limit is the budget of Owned. It is required.
	Limit *budget.Budget
}

// New returns the access to a cluster. Start fills its caches once all controllers are made, and before
// they run. The caches have no managed fields.
func New(kube kubernetes.Interface, meta metadata.Interface, o Options) Cluster {
	selects := func(operator string) func(*metav1.ListOptions) {
		return func(opts *metav1.ListOptions) {
			opts.LabelSelector = controller.ManagedByLabel + operator + o.ManagedBy
		}
	}
	return Cluster{
		Kube:      kube,
		ManagedBy: o.ManagedBy,
		Owned:     packed.NewFactory(kube, o.Namespace, selects("="), o.Limit, append(slices.Clone(o.Groups), controller.AnnotationDomain)...),
		Others:    metadatainformer.NewFilteredSharedInformerFactory(meta, 0, o.Namespace, selects("!=")),
		All:       metadatainformer.NewFilteredSharedInformerFactory(meta, 0, o.Namespace, nil),
	}
}

// Start starts the informers that kinds have asked for, which run until stop is closed.
func (c Cluster) Start(stop <-chan struct{}) {
	c.Owned.Start(stop)
	c.Others.Start(stop)
	c.All.Start(stop)
}

// Shutdown waits until all informers have ended, after stop was closed.
func (c Cluster) Shutdown() {
	c.Owned.Shutdown()
	c.Others.Shutdown()
	c.All.Shutdown()
}
