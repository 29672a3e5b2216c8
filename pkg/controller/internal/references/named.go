package references

import (
	"fmt"

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
	others Known
	own    cache.SharedIndexInformer
}

// NewNamed returns those of a type: what own holds, and the others, which factory selects.
func NewNamed(factory metadatainformer.SharedInformerFactory, resource schema.GroupVersionResource, own cache.SharedIndexInformer) (Named, error) {
	others, err := New(factory, resource)
	return Named{others, own}, err
}

// Informers tell of changes.
func (n Named) Informers() []cache.SharedIndexInformer {
	return []cache.SharedIndexInformer{n.others.Informer(), n.own}
}

// Get tells which version the caches have of an object. Its error for one that is not there
// is NotFound. One that gets or loses the label by which the caches select may be in neither
// for a moment; an event follows, and a caller that cannot wait for it asks the API server.
func (n Named) Get(namespace, name string) (controller.Versioned, error) {
	known, err := n.others.Get(namespace, name)
	if err == nil || !apierrors.IsNotFound(err) {
		return known, err
	}
	own, found, inStore := n.own.GetStore().GetByKey(cache.NewObjectName(namespace, name).String())
	if inStore != nil {
		return nil, inStore
	}
	if !found {
		return nil, err
	}
	object, ok := own.(controller.Versioned)
	if !ok {
		return nil, fmt.Errorf("the cache of %s made here holds a %T", n.others.resource.Resource, own)
	}
	return object, nil
}
