// Package references knows the objects that users name, such as Secrets, by their
// metadata alone, and which objects name them.
package references

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

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

func identityOf(obj any) (any, error) {
	known, ok := obj.(*metav1.PartialObjectMetadata)
	if !ok {
		return obj, nil
	}
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: known.Namespace, Name: known.Name, UID: known.UID, ResourceVersion: known.ResourceVersion,
		DeletionTimestamp: known.DeletionTimestamp,
	}}, nil
}

// Informer tells of changes.
func (k Known) Informer() cache.SharedIndexInformer { return k.informer }

// Get is the metadata of one, from the cache; namespace is empty for a type that is
// cluster-scoped. Its error for one that is not there is NotFound.
func (k Known) Get(namespace, name string) (metav1.Object, error) {
	object, err := cache.NewGenericLister(k.informer.GetIndexer(), k.resource.GroupResource()).Get(cache.NewObjectName(namespace, name).String())
	if err != nil {
		return nil, err
	}
	known, ok := object.(metav1.Object)
	if !ok {
		return nil, fmt.Errorf("the cache of %s holds a %T", k.resource.Resource, object)
	}
	return known, nil
}

// Referrers are the objects that an index finds under a value.
func Referrers(objects cache.Indexer, index, value string) []controller.Key {
	names, err := objects.IndexKeys(index, value)
	if err != nil {
		return nil // there is such an index
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
