// Package sharded limits caches to the objects of one shard, which holds a part of all namespaces.
//
// Lists and watches ask the API server for the objects of the shard only. An API server without the feature
// ShardedListAndWatch (KEP-5866, Kubernetes 1.36) ignores the shard selector, and serves the objects of all shards. The
// client therefore also discards the objects of other shards, so that a cache is right even if only some API servers of
// a cluster have the feature. Later lists and watches exclude the namespaces of the discarded objects (exclusions.go).
//
// The shards of a process share one watch of each type: see Streams.
package sharded

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apimachinery/pkg/watch"
)

// Filter limits lists and watches to the objects of a shard. The zero Filter limits nothing.
type Filter struct {
	selector sharding.Selector // nil for the zero Filter
	// namespaceOf returns the namespace that an object belongs to. Nil means metadata.namespace.
	namespaceOf func(runtime.Object) string
	streams     *Streams // nil for the zero Filter
}

// NewFilter returns the Filter of the shard with the namespaces that a selector of object.metadata.namespace matches.
// For a selector of all namespaces, NewFilter returns the zero Filter. All Filters of a process must share the same
// streams.
func NewFilter(selector sharding.Selector, streams *Streams) Filter {
	if selector.Empty() {
		return Filter{}
	}
	return Filter{selector: selector, streams: streams}
}

// Of returns a Filter with the same shard, for a cluster-scoped type whose objects belong to namespaces. The API server
// cannot select such objects, so that only the client discards the objects of other shards.
func (f Filter) Of(namespace func(runtime.Object) string) Filter {
	f.namespaceOf = namespace
	return f
}

// Empty reports whether the Filter limits nothing.
func (f Filter) Empty() bool { return f.selector == nil }

// maxRanges limits the number of shards in a selector. Each shard takes about 110 bytes in a URL.
const maxRanges = 32

// limited returns options that ask the API server for the objects of some shards of the same type. The API server may
// also serve other objects.
func limited(options metav1.ListOptions, shards ...Filter) metav1.ListOptions {
	if shards[0].namespaceOf != nil {
		return options
	}
	var ranges []sharding.ShardRangeRequirement
	for _, f := range shards {
		ranges = append(ranges, f.selector.Requirements()...)
	}
	if len(ranges) <= maxRanges {
		options.ShardSelector = sharding.NewSelector(ranges...).String()
	}
	return shards[0].streams.exclusions.exclude(options, shards)
}

// hasNamespace reports whether a namespace belongs to the shard.
func (f Filter) hasNamespace(name string) bool {
	has, err := f.selector.Matches(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: name}})
	return has || err != nil
}

// holds reports whether an object belongs to the shard.
func (f Filter) holds(object runtime.Object) (bool, error) {
	if f.namespaceOf != nil {
		object = &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespaceOf(object)}}
	}
	return f.selector.Matches(object)
}

// list lists the objects of the shard. all lists the objects of all shards.
func list[L runtime.Object](
	ctx context.Context, f Filter, options metav1.ListOptions, all func(context.Context, metav1.ListOptions) (L, error),
) (L, error) {
	listed, err := all(ctx, limited(options, f))
	if err != nil {
		return listed, err
	}
	return listed, f.prune(listed)
}

// prune removes the objects of other shards from a list.
func (f Filter) prune(list runtime.Object) error {
	items, err := meta.ExtractList(list)
	if err != nil {
		return fmt.Errorf("reading a list: %w", err)
	}
	held := make([]runtime.Object, 0, len(items))
	for _, item := range items {
		ok, err := f.holds(item)
		if err != nil {
			return fmt.Errorf("finding the shard of an object: %w", err)
		}
		if ok {
			held = append(held, item)
		} else {
			f.streams.exclusions.discarded(item)
		}
	}
	if len(held) == len(items) {
		return nil // always the case if the API server has the feature
	}
	return meta.SetList(list, held)
}

// watch begins a watch of the objects of the shard. open begins a watch of the objects of all shards.
func (f Filter) watch(
	ctx context.Context, objects source, options metav1.ListOptions, open opener,
) (watch.Interface, error) {
	objects.labels, objects.fields = options.LabelSelector, options.FieldSelector
	return f.streams.of(objects).watch(ctx, f, options, open)
}

// event translates an event of a watch of all objects for a watch of the shard. ok is false if the shard gets no event.
// If the namespace of a cluster-scoped object may have changed to another shard, the object counts as deleted.
func (f Filter) event(event watch.Event) (of watch.Event, ok bool) {
	if event.Type == watch.Bookmark || event.Type == watch.Error {
		return event, true
	}
	held, err := f.holds(event.Object)
	if held || err != nil { // for an object without metadata, the informer reports the error
		return event, true
	}
	if event.Type != watch.Modified || f.namespaceOf == nil {
		return event, false
	}
	event.Type = watch.Deleted
	return event, true
}
