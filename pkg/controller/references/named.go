package references

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"windlass.dev/windlass/pkg/controller"
)

// Named finds the objects of a type that both the operator and users create, such as Secrets. It reads two caches: the
// cache of owned objects, and a cache with the identity of all other objects. No object is watched twice.
type Named struct {
	resource  schema.GroupVersionResource
	informers []cache.SharedIndexInformer
}

// NewNamed returns the Named of a type. own caches the objects that the operator created, and factory selects all other
// objects.
func NewNamed(
	factory metadatainformer.SharedInformerFactory, resource schema.GroupVersionResource, own cache.SharedIndexInformer,
) (Named, error) {
	others, err := New(factory, resource)
	return Named{resource, []cache.SharedIndexInformer{own, others.Informer()}}, err
}

// Informers returns the informers of both caches.
func (n Named) Informers() []cache.SharedIndexInformer { return n.informers }

// Get returns the version of an object in the caches, or NotFound for a missing object. An object that
// gets or loses the label controller.ManagedByLabel may be in neither cache for a moment. An event
// follows. A caller that cannot wait for the event reads the object from the API server.
func (n Named) Get(namespace, name string) (controller.Versioned, error) {
	for _, informer := range n.informers {
		if object, found, err := lookUp[controller.Versioned](informer, namespace, name); found || err != nil {
			return object, err
		}
	}
	return nil, apierrors.NewNotFound(n.resource.GroupResource(), name)
}
