// Package references knows the objects that users name, such as Secrets, and which objects
// name them. Those that are not made here it knows by their metadata alone.
package references

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"windlass.dev/windlass/pkg/cache/packed"
	"windlass.dev/windlass/pkg/controller"
)

// Known are the objects of one type.
type Known struct {
	resource schema.GroupVersionResource
	informer cache.SharedIndexInformer
}

// New returns those of a type. The cache keeps of each what tells one version from
// another, and whether it is being deleted.
func New(factory metadatainformer.SharedInformerFactory, resource schema.GroupVersionResource) (Known, error) {
	k := Known{resource, factory.ForResource(resource).Informer()}
	if err := k.informer.SetTransform(identityOf); err != nil {
		return k, fmt.Errorf("trimming the cache of %s: %w", resource.Resource, err)
	}
	return k, nil
}

// Object is what is known of an object.
type Object interface {
	controller.Versioned
	GetDeletionTimestamp() *metav1.Time
}

// identity is an Object in a cache, at a fraction of the size of its metadata: a cluster has
// many Secrets and ConfigMaps that nobody names.
type identity struct {
	namespace, name string
	uid             types.UID
	version         string
	deleted         *metav1.Time
}

func (i *identity) GetUID() types.UID                  { return i.uid }
func (i *identity) GetResourceVersion() string         { return i.version }
func (i *identity) GetDeletionTimestamp() *metav1.Time { return i.deleted }

// GetObjectMeta is what stores and handlers ask for.
func (i *identity) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: i.namespace, Name: i.name, UID: i.uid, ResourceVersion: i.version, DeletionTimestamp: i.deleted}
}

func identityOf(obj any) (any, error) {
	known, ok := obj.(*metav1.PartialObjectMetadata)
	if !ok {
		return obj, nil
	}
	return &identity{known.Namespace, known.Name, known.UID, known.ResourceVersion, known.DeletionTimestamp}, nil
}

// Informer tells of changes.
func (k Known) Informer() cache.SharedIndexInformer { return k.informer }

// Get is what is known of one, from the cache; namespace is empty for a type that is
// cluster-scoped. Its error for one that is not there is NotFound.
func (k Known) Get(namespace, name string) (Object, error) {
	known, found, err := lookUp[Object](k.informer, namespace, name)
	if err == nil && !found {
		err = apierrors.NewNotFound(k.resource.GroupResource(), name)
	}
	return known, err
}

// lookUp finds an object in the cache of an informer, as it is stored there.
func lookUp[T controller.Versioned](informer cache.SharedIndexInformer, namespace, name string) (object T, found bool, err error) {
	cached, found, err := packed.Stored(informer.GetStore()).GetByKey(cache.NewObjectName(namespace, name).String())
	if err != nil || !found {
		return object, false, err
	}
	object, ok := cached.(T)
	if !ok {
		return object, false, fmt.Errorf("the cache holds a %T for %s/%s", cached, namespace, name)
	}
	return object, true, nil
}

// Index finds the objects of a kind by the objects that they refer to.
type Index struct {
	objects cache.Indexer
	name    string
}

// NewIndex adds an index to the informer of a kind, which must not have started. name is unique among
// the indexes of the informer. values returns what an object is found by.
func NewIndex[T any](objects cache.SharedIndexInformer, name string, values func(object T) []string) (Index, error) {
	err := objects.AddIndexers(cache.Indexers{name: func(obj any) ([]string, error) {
		object, ok := obj.(T)
		if !ok {
			return nil, nil
		}
		return values(object), nil
	}})
	if err != nil {
		return Index{}, fmt.Errorf("adding index %q: %w", name, err)
	}
	return Index{objects.GetIndexer(), name}, nil
}

// Of returns the objects that refer to obj, if the values of the index are names as
// cache.ObjectName.String returns them: namespace/name.
func (i Index) Of(obj metav1.Object) []controller.Key {
	return i.Find(cache.MetaObjectToName(obj).String())
}

// Find returns the objects that the index has for a value.
func (i Index) Find(value string) []controller.Key {
	names, err := i.objects.IndexKeys(i.name, value)
	if err != nil {
		return nil // NewIndex has added the index
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
