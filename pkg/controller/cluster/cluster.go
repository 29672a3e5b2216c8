// Package cluster gives kinds access to a cluster: the clients and caches that all kinds share.
package cluster

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"windlass.dev/windlass/pkg/cache/budget"
	"windlass.dev/windlass/pkg/cache/lenient"
	"windlass.dev/windlass/pkg/cache/packed"
	"windlass.dev/windlass/pkg/controller"
)

// Cluster is the client that kinds use for built-in types, and the caches that kinds read.
type Cluster struct {
	Kube kubernetes.Interface
	// ManagedBy is the value of the label app.kubernetes.io/managed-by of the objects that kinds own.
	// Empty means controller.ManagedByWindlass.
	ManagedBy string

	// Owned caches the built-in objects whose label app.kubernetes.io/managed-by has the value ManagedBy, without the
	// data of immutable ConfigMaps.
	Owned informers.SharedInformerFactory
	// Others caches the metadata of the objects that Owned does not select. For example, it does not cache
	// the data of Secrets and ConfigMaps that users create.
	Others metadatainformer.SharedInformerFactory
	// All caches the metadata of all objects of a type, with any labels.
	All metadatainformer.SharedInformerFactory

	limit *budget.Budget
}

// Options say what the caches of a Cluster hold.
type Options struct {
	// Namespace is the namespace of all cached objects. Empty means all namespaces.
	Namespace string
	// ManagedBy is the value of Cluster.ManagedBy. It is required, and must be unique among the
	// operators of a cluster.
	ManagedBy string
	// Groups are the API groups of the operator's kinds. An object is cached whole if a kind of these groups controls it,
	// or if it has an annotation of one of these groups or of the engine. Of other objects whose managed-by label has the
	// value ManagedBy, only the identity is cached.
	Groups []string
	// Limit is the budget of Owned and of Transform. It is required.
	Limit *budget.Budget
	// NewInformer is the same as in packed.Options.
	NewInformer packed.NewInformer
	// Packers may be shared by several Clusters. Nil means that this Cluster has its own.
	Packers *packed.Packers
}

// New returns the client and the caches for a cluster. Call Start, which fills the caches, after all
// controllers are created and before they run. The caches have no managed fields.
func New(kube kubernetes.Interface, ofMetadata metadata.Interface, o Options) Cluster {
	selects := func(operator string) func(*metav1.ListOptions) {
		return func(opts *metav1.ListOptions) {
			opts.LabelSelector = controller.ManagedByLabel + operator + o.ManagedBy
		}
	}
	return Cluster{
		Kube:      kube,
		ManagedBy: o.ManagedBy,
		Owned: packed.NewFactory(kube, packed.Options{
			Namespace: o.Namespace, Tweak: selects("="), NewInformer: o.NewInformer, Packers: o.Packers,
			Limit: o.Limit,
			// Objects with an annotation of the engine belong to the operator, too.
			Groups: append(slices.Clone(o.Groups), controller.AnnotationDomain),
		}),
		Others: metadatainformer.NewFilteredSharedInformerFactory(ofMetadata, 0, o.Namespace, selects("!=")),
		All:    metadatainformer.NewFilteredSharedInformerFactory(ofMetadata, 0, o.Namespace, nil),
		limit:  o.Limit,
	}
}

// Transform returns a transform for the informers of the operator's own kinds. It limits the memory that
// the objects of one namespace take: see package budget. An object that exceeds a limit is not reconciled,
// and its status says so.
func (c Cluster) Transform() cache.TransformFunc { return lenient.Transform(c.limit) }

// Start starts the informers that kinds have asked for. They run until stop is closed.
func (c Cluster) Start(stop <-chan struct{}) {
	c.Owned.Start(stop)
	c.Others.Start(stop)
	c.All.Start(stop)
}

// Shutdown waits until all informers have ended. Call it after stop is closed.
func (c Cluster) Shutdown() {
	c.Owned.Shutdown()
	c.Others.Shutdown()
	c.All.Shutdown()
}
