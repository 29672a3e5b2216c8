package operator

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/cache/budget"
	"windlass.dev/windlass/pkg/cache/lenient"
	"windlass.dev/windlass/pkg/generated/clientset/versioned"
	"windlass.dev/windlass/pkg/generated/clientset/versioned/scheme"
	"windlass.dev/windlass/pkg/generated/informers/externalversions"
	"windlass.dev/windlass/pkg/generated/informers/externalversions/cnat"
	"windlass.dev/windlass/pkg/generated/informers/externalversions/internalinterfaces"
	"windlass.dev/windlass/pkg/generated/informers/externalversions/windlass"
	"windlass.dev/windlass/pkg/sharding/sharded"
)

// ownGroups are the API groups of Windlass' own kinds, and the prefixes of the annotations that the operator reads.
var ownGroups = []string{v1alpha1.GroupName, cnatv1.GroupName}

// newInformers returns the informers of Windlass' own kinds, limited to a namespace, or to a shard if it is not empty.
func newInformers(
	client versioned.Interface, namespace string, shard sharded.Filter, limit *budget.Budget,
) externalversions.SharedInformerFactory {
	all := externalversions.NewSharedInformerFactoryWithOptions(client, 0,
		externalversions.WithNamespace(namespace),
		externalversions.WithTransform(lenient.Transform(limit, ownGroups...)))
	if shard.Empty() {
		return all
	}
	return shardInformers{all, namespace, shard}
}

// shardInformers is a factory whose informers hold the objects of a shard.
type shardInformers struct {
	externalversions.SharedInformerFactory
	namespace string
	shard     sharded.Filter
}

// Cnat implements externalversions.SharedInformerFactory.
func (f shardInformers) Cnat() cnat.Interface { return cnat.New(f, f.namespace, nil) }

// Windlass implements externalversions.SharedInformerFactory.
func (f shardInformers) Windlass() windlass.Interface { return windlass.New(f, f.namespace, nil) }

// InformerFor implements externalversions.SharedInformerFactory. The methods for API groups call InformerFor to create
// their informers.
func (f shardInformers) InformerFor(
	obj runtime.Object, _ internalinterfaces.NewInformerFunc,
) cache.SharedIndexInformer {
	shard := f.shard
	if _, ok := obj.(*v1alpha1.Platform); ok {
		shard = shard.Of(platformNamespace)
	}
	return f.SharedInformerFactory.InformerFor(obj, func(
		client versioned.Interface, _ time.Duration,
	) cache.SharedIndexInformer {
		return shard.Informer(client.WindlassV1alpha1().RESTClient(), scheme.Scheme, obj, f.namespace, nil)
	})
}

// platformNamespace returns the namespace of the components of a Platform. The Platform belongs to the shard of this
// namespace.
func platformNamespace(obj runtime.Object) string {
	if platform, ok := obj.(*v1alpha1.Platform); ok {
		return platform.Spec.Namespace
	}
	return ""
}
