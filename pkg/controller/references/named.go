package references

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"windlass.dev/windlass/pkg/controller"
)

// Named are the objects of a type of which some are made here: users may name these as
// well. They are in the cache of children, the others are known by their metadata, and none
// is watched twice.
type Named struct {
	resource  schema.GroupVersionResource
	informers []cache.SharedIndexInformer
}

// NewNamed returns those of a type: what own holds, and the others, which factory selects.
func NewNamed(factory metadatainformer.SharedInformerFactory, resource schema.GroupVersionResource, own cache.SharedIndexInformer) (Named, error) {
	others, err := New(factory, resource)
	return Named{resource, []cache.SharedIndexInformer{own, others.Informer()}}, err
}

// Informers tell of changes.
func (n Named) Informers() []cache.SharedIndexInformer { return n.informers }

// Get tells which version the caches have of an object. Its error for one that is not there
// is NotFound. One that gets or loses the label by which the caches select may be in neither
// for a moment; an event follows, and a caller that cannot wait for it asks the API server.
func (n Named) Get(namespace, name string) (controller.Versioned, error) {
	for _, informer := range n.informers {
		if object, found, err := lookUp[controller.Versioned](informer, namespace, name); found || err != nil {
			return object, err
		}
	}
	return nil, apierrors.NewNotFound(n.resource.GroupResource(), name)
}
