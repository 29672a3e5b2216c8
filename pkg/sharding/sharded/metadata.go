package sharded

import (
	"context"
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
)

// namespaces is the resource of Namespaces. A Namespace is in the same shard as the objects in it.
var namespaces = schema.GroupResource{Resource: "namespaces"}

// Metadata returns a client that lists and watches only the objects of the shard, and the Namespaces of the shard. It
// sends all other requests as client does.
func (f Filter) Metadata(client metadata.Interface) metadata.Interface {
	if f.Empty() {
		return client
	}
	return metadataClient{client, f}
}

type metadataClient struct {
	metadata.Interface
	filter Filter
}

// Resource implements metadata.Interface.
func (c metadataClient) Resource(resource schema.GroupVersionResource) metadata.Getter {
	all, filter := c.Interface.Resource(resource), c.filter
	if resource.GroupResource() == namespaces {
		filter = filter.Of(nameOf)
	}
	return metadataGetter{
		metadataResource{
			all, filter, source{
				of: "metadata of " + resource.String(), object: reflect.TypeFor[*metav1.PartialObjectMetadata](),
			},
		}, all,
	}
}

func nameOf(object runtime.Object) string {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return ""
	}
	return accessor.GetName()
}

type metadataGetter struct {
	metadataResource
	all metadata.Getter
}

// Namespace implements metadata.Getter.
func (g metadataGetter) Namespace(name string) metadata.ResourceInterface {
	objects := g.objects
	objects.namespace = name
	return metadataResource{g.all.Namespace(name), g.filter, objects}
}

type metadataResource struct {
	metadata.ResourceInterface
	filter  Filter
	objects source
}

// List implements metadata.ResourceInterface.
func (r metadataResource) List(
	ctx context.Context, options metav1.ListOptions,
) (*metav1.PartialObjectMetadataList, error) {
	return list(ctx, r.filter, options, r.ResourceInterface.List)
}

// Watch implements metadata.ResourceInterface.
func (r metadataResource) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return r.filter.watch(ctx, r.objects, options, r.ResourceInterface.Watch)
}
