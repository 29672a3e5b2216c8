package packed

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// Indexer is a cache.Indexer that returns unpacked objects. Callers must not change them. Generated listers
// can use an Indexer.
//
// Get and GetByKey return an ExceededError for an object that exceeds a limit. The methods that return
// several objects cannot return an error: they return such an object as an *Object.
type Indexer struct {
	// Indexer has the stored objects, each packed (*Object) or unpacked.
	cache.Indexer
}

// Stored returns the store with the packed objects of an Indexer. Reading the identity and the version of a
// packed object costs less than unpacking it. If store is not an Indexer, Stored returns store.
func Stored(store cache.Store) cache.Store {
	if i, ok := store.(Indexer); ok {
		return i.Indexer
	}
	return store
}

// Get implements cache.Store.
func (i Indexer) Get(obj any) (item any, exists bool, err error) {
	return unpackFound(i.Indexer.Get(obj))
}

// GetByKey implements cache.Store.
func (i Indexer) GetByKey(key string) (item any, exists bool, err error) {
	return unpackFound(i.Indexer.GetByKey(key))
}

// List implements cache.Store.
func (i Indexer) List() []any { return unpackAll(i.Indexer.List()) }

// Index implements cache.Indexer.
func (i Indexer) Index(name string, obj any) ([]any, error) {
	all, err := i.Indexer.Index(name, obj)
	return unpackAll(all), err
}

// ByIndex implements cache.Indexer.
func (i Indexer) ByIndex(name, value string) ([]any, error) {
	all, err := i.Indexer.ByIndex(name, value)
	return unpackAll(all), err
}

// AddIndexers implements cache.Indexer. The index functions get unpacked objects.
func (i Indexer) AddIndexers(indexers cache.Indexers) error {
	return i.Indexer.AddIndexers(unpacking(indexers))
}

// unpacking returns indexers whose functions get unpacked objects. An object that cannot be unpacked is not in
// their indexes.
func unpacking(indexers cache.Indexers) cache.Indexers {
	wrapped := cache.Indexers{}
	for name, index := range indexers {
		wrapped[name] = func(obj any) ([]string, error) {
			whole, err := unpacked(obj)
			if err != nil {
				return nil, nil //nolint:nilerr // an indexer panics if one of its functions returns an error
			}
			return index(whole)
		}
	}
	return wrapped
}

func unpacked(obj any) (any, error) {
	if o, ok := obj.(*Object); ok {
		return o.Unpack()
	}
	return obj, nil
}

func unpackFound(item any, exists bool, err error) (any, bool, error) {
	if err != nil || !exists {
		return item, exists, err
	}
	whole, err := unpacked(item)
	if err != nil {
		return nil, true, err
	}
	return whole, true, nil
}

func unpackAll(all []any) []any {
	for n, obj := range all {
		if whole, err := unpacked(obj); err == nil {
			all[n] = whole
		}
	}
	return all
}

// informer is a cache.SharedIndexInformer whose store and indexer unpack objects. Its events have the
// stored objects.
type informer struct{ cache.SharedIndexInformer }

func (i informer) GetStore() cache.Store { return i.GetIndexer() }

func (i informer) GetIndexer() cache.Indexer { return Indexer{i.SharedIndexInformer.GetIndexer()} }

func (i informer) AddIndexers(indexers cache.Indexers) error {
	return i.SharedIndexInformer.AddIndexers(unpacking(indexers))
}

// genericInformer is an informers.GenericInformer whose lister unpacks objects.
type genericInformer struct {
	informer informer
	resource schema.GroupResource
}

var _ informers.GenericInformer = genericInformer{}

func (g genericInformer) Informer() cache.SharedIndexInformer { return g.informer }

func (g genericInformer) Lister() cache.GenericLister {
	return cache.NewGenericLister(g.informer.GetIndexer(), g.resource)
}
