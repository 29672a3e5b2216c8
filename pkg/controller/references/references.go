// Package references finds the objects that users name, such as Secrets, and the objects that name
// them. Its own caches hold only the identity of each object.
package references

import (
	"fmt"
	"runtime/debug"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"windlass.dev/windlass/pkg/cache/packed"
	"windlass.dev/windlass/pkg/controller"
)

// Known finds the objects of one type in one cache, which only has their identities. Named has two caches.
type Known struct {
	resource schema.GroupVersionResource
	informer cache.SharedIndexInformer
}

// New returns the Known of a type. The cache has the name, UID, resource version and deletion timestamp of
// each object.
func New(factory metadatainformer.SharedInformerFactory, resource schema.GroupVersionResource) (Known, error) {
	k := Known{resource, factory.ForResource(resource).Informer()}
	if err := k.informer.SetTransform(identityOf); err != nil {
		return k, fmt.Errorf("setting the transform of the cache of %s: %w", resource.Resource, err)
	}
	return k, nil
}

// Object is the cached part of an object.
type Object interface {
	controller.Versioned
	GetDeletionTimestamp() *metav1.Time
}

// identity is an Object as the cache stores it. It takes a fraction of the memory of the metadata. This
// matters because a cluster has many Secrets and ConfigMaps that no spec names.
type identity struct {
	namespace, name string
	uid             types.UID
	version         string
	deleted         *metav1.Time
}

func (i *identity) GetUID() types.UID                  { return i.uid }
func (i *identity) GetResourceVersion() string         { return i.version }
func (i *identity) GetDeletionTimestamp() *metav1.Time { return i.deleted }

// GetObjectMeta implements metav1.ObjectMetaAccessor, which stores and handlers use.
func (i *identity) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{
		Namespace: i.namespace, Name: i.name, UID: i.uid, ResourceVersion: i.version, DeletionTimestamp: i.deleted,
	}
}

func identityOf(obj any) (any, error) {
	known, ok := obj.(*metav1.PartialObjectMetadata)
	if !ok {
		return obj, nil
	}
	return &identity{known.Namespace, known.Name, known.UID, known.ResourceVersion, known.DeletionTimestamp}, nil
}

// Informer returns the informer of the objects.
func (k Known) Informer() cache.SharedIndexInformer { return k.informer }

// Get returns an object from the cache, or NotFound for a missing object. namespace is empty for a
// cluster-scoped type.
func (k Known) Get(namespace, name string) (Object, error) {
	known, found, err := lookUp[Object](k.informer, namespace, name)
	if err == nil && !found {
		err = apierrors.NewNotFound(k.resource.GroupResource(), name)
	}
	return known, err
}

// lookUp returns an object from the cache of an informer. It does not unpack a packed object.
func lookUp[T controller.Versioned](
	informer cache.SharedIndexInformer, namespace, name string,
) (object T, found bool, err error) {
	cached, found, err := packed.Stored(informer.GetStore()).GetByKey(cache.NewObjectName(namespace, name).String())
	if err != nil || !found {
		return object, false, err
	}
	object, ok := cached.(T)
	if !ok {
		return object, false, fmt.Errorf("unexpected type %T of %s/%s in the cache", cached, namespace, name)
	}
	return object, true, nil
}

// Index finds the objects of a kind by the objects that they refer to.
type Index struct {
	objects cache.Indexer
	name    string
}

// NewIndex adds an index to the informer of a kind. The informer must not have started. name is unique among the
// indexes of the informer. values returns the values by which Find finds an object. If values panics, the index lacks
// the object: the panic is recovered, because it would end the process.
func NewIndex[T any](objects cache.SharedIndexInformer, name string, values func(object T) []string) (Index, error) {
	err := objects.AddIndexers(cache.Indexers{name: func(obj any) ([]string, error) {
		object, ok := obj.(T)
		if !ok {
			return nil, nil
		}
		return recovered(values, object), nil
	}})
	if err != nil {
		return Index{}, fmt.Errorf("adding index %q: %w", name, err)
	}
	return Index{objects.GetIndexer(), name}, nil
}

// recovered returns the result of values, or nil if values panics.
func recovered[T any](values func(object T) []string, object T) (found []string) {
	defer func() {
		if reason := recover(); reason != nil {
			klog.Background().Error(fmt.Errorf("panic: %v", reason),
				"Object is not indexed because the index function panicked", "type", fmt.Sprintf("%T", object), "stack",
				string(debug.Stack()))
			found = nil
		}
	}()
	return values(object)
}

// Of returns the keys of the objects that refer to obj. The values of the index must have the form namespace/name, like
// the result of cache.ObjectName.String.
func (i Index) Of(obj metav1.Object) []controller.Key {
	return i.Find(cache.MetaObjectToName(obj).String())
}

// Find returns the keys of the objects that the index has for a value.
func (i Index) Find(value string) []controller.Key {
	names, err := i.objects.IndexKeys(i.name, value)
	if err != nil {
		return nil // does not happen, because NewIndex has added the index
	}
	keys := make([]controller.Key, 0, len(names))
	for _, name := range names {
		key, err := cache.ParseObjectName(name)
		if err == nil {
			keys = append(keys, key)
		}
	}
	return keys
}
