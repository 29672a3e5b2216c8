package sharded

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/cache"
)

const (
	// maxFieldSelector limits the length of the field selector in a URL, in bytes. maxSelectors limits the length of the
	// field selector and the shard selector together. The URL then has less than 8 KB, which common proxies accept.
	maxFieldSelector, maxSelectors = 5500, 7200
	// maxRemembered limits the number of namespaces that are remembered. A field selector has space for fewer namespaces,
	// but skips the namespaces of its own shards.
	maxRemembered = 1024
	// rememberedFor is how long a namespace is remembered after the last of its objects was discarded.
	rememberedFor = 24 * time.Hour
)

// exclusions are the namespaces of the objects that lists and watches of this process have recently discarded. Lists
// and watches exclude these namespaces by a field selector, which API servers without the feature ShardedListAndWatch
// support too.
type exclusions struct{ namespaces *cache.LRUExpireCache }

func newExclusions() exclusions { return exclusions{cache.NewLRUExpireCache(maxRemembered)} }

// discarded remembers the namespace of an object that does not belong to the shard of the list or watch.
func (e exclusions) discarded(object runtime.Object) {
	accessor, err := meta.Accessor(object)
	if err != nil || accessor.GetNamespace() == "" {
		return
	}
	e.namespaces.Add(strings.Clone(accessor.GetNamespace()), nil, rememberedFor) // the name shares memory with a message
}

// exclude adds the exclusions to the options of a list or watch of some shards. It never excludes a namespace of these
// shards.
func (e exclusions) exclude(options metav1.ListOptions, shards []Filter) metav1.ListOptions {
	var terms []string
	if options.FieldSelector != "" {
		terms = append(terms, options.FieldSelector)
	}
	length, room := 0, min(maxFieldSelector, maxSelectors-len(url.QueryEscape(options.ShardSelector)))
	for _, key := range slices.Backward(e.namespaces.Keys()) {
		namespace := key.(string)
		if slices.ContainsFunc(shards, func(f Filter) bool { return f.hasNamespace(namespace) }) {
			continue
		}
		term := "metadata.namespace!=" + namespace
		if length += len(url.QueryEscape(term + ",")); length > room {
			break
		}
		terms = append(terms, term)
	}
	options.FieldSelector = strings.Join(terms, ",")
	return options
}
