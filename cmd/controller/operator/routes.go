package operator

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gateway "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"
	gatewayscheme "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned/scheme"
	"sigs.k8s.io/gateway-api/pkg/client/informers/externalversions"
	"sigs.k8s.io/gateway-api/pkg/client/informers/externalversions/apis"
	"sigs.k8s.io/gateway-api/pkg/client/informers/externalversions/internalinterfaces"

	"windlass.dev/windlass/pkg/cache/budget"
	"windlass.dev/windlass/pkg/cache/lenient"
	"windlass.dev/windlass/pkg/cache/optional"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/sharding/sharded"
)

// routeInformers is a factory whose informers hold the routes that the operator manages. They are empty while the
// cluster lacks the kinds of Gateway API.
type routeInformers struct {
	externalversions.SharedInformerFactory
	namespace string
	shard     sharded.Filter
}

// newRoutes returns the informers of routes, limited to a namespace, or to a shard if it is not empty.
func newRoutes(
	client gateway.Interface, namespace string, shard sharded.Filter, limit *budget.Budget,
) externalversions.SharedInformerFactory {
	all := externalversions.NewSharedInformerFactoryWithOptions(client, 0,
		externalversions.WithTransform(transformRoutes(limit)))
	return routeInformers{all, namespace, shard}
}

// transformRoutes returns a transform for the informers of routes: see lenient.Transform. It keeps the annotations of
// all domains, because users can set annotations of routes in spec.metadata. If an object exceeds a limit, it also
// removes the status, which other controllers write.
func transformRoutes(limit *budget.Budget) cache.TransformFunc {
	transform := lenient.Transform(limit)
	return func(obj any) (any, error) {
		obj, err := transform(obj)
		switch route := obj.(type) {
		case *gatewayv1.HTTPRoute:
			if lenient.MarkOn(route) != nil {
				route.Status = gatewayv1.HTTPRouteStatus{}
			}
		case *gatewayv1.GRPCRoute:
			if lenient.MarkOn(route) != nil {
				route.Status = gatewayv1.GRPCRouteStatus{}
			}
		}
		return obj, err
	}
}

// Gateway implements externalversions.SharedInformerFactory.
func (f routeInformers) Gateway() apis.Interface { return apis.New(f, f.namespace, nil) }

// InformerFor implements externalversions.SharedInformerFactory. The methods for API groups call InformerFor to create
// their informers.
func (f routeInformers) InformerFor(
	obj runtime.Object, _ internalinterfaces.NewInformerFunc,
) cache.SharedIndexInformer {
	return f.SharedInformerFactory.InformerFor(obj, func(
		client gateway.Interface, _ time.Duration,
	) cache.SharedIndexInformer {
		return cache.NewSharedIndexInformer(optional.ListWatch(f.listWatch(client, obj)), obj, 0,
			cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	})
}

// listWatch returns what the informer for the type of obj lists and watches.
func (f routeInformers) listWatch(client gateway.Interface, obj runtime.Object) *cache.ListWatch {
	from := client.GatewayV1().RESTClient()
	if !f.shard.Empty() {
		return f.shard.ListWatch(from, gatewayscheme.Scheme, obj, f.namespace, selectManaged)
	}
	resource := "httproutes"
	if _, ok := obj.(*gatewayv1.GRPCRoute); ok {
		resource = "grpcroutes"
	}
	return cache.NewFilteredListWatchFromClient(from, resource, f.namespace, selectManaged)
}

func selectManaged(options *metav1.ListOptions) {
	options.LabelSelector = controller.ManagedByLabel + "=" + controller.ManagedByWindlass
}
