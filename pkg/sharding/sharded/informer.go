package sharded

import (
	"context"
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// Informer returns an informer that lists and watches only the objects of the shard. In all other respects, it is like
// a generated informer for the type of object. The Filter must not be empty, and client must decode the types of
// scheme. tweak changes the options of each list and watch. Nil changes nothing.
func (f Filter) Informer(
	client rest.Interface, scheme *runtime.Scheme, object runtime.Object, namespace string,
	tweak func(*metav1.ListOptions),
) cache.SharedIndexInformer {
	held := f.ListWatch(client, scheme, object, namespace, tweak)
	return cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(held, client), object, 0,
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
}

// ListWatch returns what the informer of Informer lists and watches.
func (f Filter) ListWatch(
	client rest.Interface, scheme *runtime.Scheme, object runtime.Object, namespace string,
	tweak func(*metav1.ListOptions),
) *cache.ListWatch {
	resource := resourceOf(scheme, object)
	all := cache.NewFilteredListWatchFromClient(versionClient{client, resource.GroupVersion()}, resource.Resource,
		namespace, func(*metav1.ListOptions) {})
	if tweak == nil {
		tweak = func(*metav1.ListOptions) {}
	}
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			tweak(&options)
			return list(ctx, f, options, all.ListWithContext)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			tweak(&options)
			return f.watch(ctx, source{of: resource.String(), object: reflect.TypeOf(object), namespace: namespace},
				options, all.WatchWithContext)
		},
	}
}

// resourceOf returns the resource of a type in the scheme. The name of the resource must be the regular plural of the
// kind.
func resourceOf(scheme *runtime.Scheme, object runtime.Object) (resource schema.GroupVersionResource) {
	kinds, _, _ := scheme.ObjectKinds(object) // without a kind, the API server rejects each list
	for _, kind := range kinds {
		resource, _ = meta.UnsafeGuessKindToResource(kind)
	}
	return resource
}

// versionClient sends GET requests to an API version, whatever the version of the client is.
type versionClient struct {
	rest.Interface
	version schema.GroupVersion
}

// Get implements cache.Getter.
func (c versionClient) Get() *rest.Request {
	if c.version.Group == "" {
		return c.Interface.Get().AbsPath("api", c.version.Version)
	}
	return c.Interface.Get().AbsPath("apis", c.version.Group, c.version.Version)
}
