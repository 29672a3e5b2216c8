package sharded

import (
	"fmt"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestNamespacesOfOtherShardsAreExcluded(t *testing.T) {
	u := newUpstream()
	for _, namespace := range []string{low, high, "kube-system", high, ""} { // the last object is cluster-scoped
		u.discard(namespace)
	}
	for name, c := range map[string]struct {
		shards []Filter
		fields string
		want   string
	}{
		"of one shard, the latest first": {
			shards: []Filter{u.half(true)}, want: "metadata.namespace!=default,metadata.namespace!=kube-system",
		},
		"in addition to a field selector": {
			shards: []Filter{u.half(false)}, fields: "metadata.name=it", want: "metadata.name=it,metadata.namespace!=a",
		},
		"of no shard of two": {shards: []Filter{u.half(true), u.half(false)}},
		"of no cluster-scoped type": {
			shards: []Filter{u.half(true).Of(nameOf)}, fields: "metadata.name=it", want: "metadata.name=it",
		},
	} {
		if got := limited(metav1.ListOptions{FieldSelector: c.fields}, c.shards...).FieldSelector; got != c.want {
			t.Errorf("namespaces %s: got the field selector %q, want %q", name, got, c.want)
		}
	}
}

func TestSelectorsFitIntoURL(t *testing.T) {
	u := newUpstream()
	for i := range 1000 {
		u.discard(fmt.Sprintf("tenant-%03d", i))
	}
	u.discard("default") // of the last shard
	var shards []Filter
	for range maxRanges {
		shards = append(shards, u.half(false))
	}
	for name, c := range map[string]struct {
		shards []Filter
		least  int
	}{
		"as many shards as fit": {shards, 6000},
		"too many shards":       {append(shards, u.half(false)), 5000},
	} {
		options := limited(metav1.ListOptions{}, c.shards...)
		query := url.Values{"fieldSelector": {options.FieldSelector}, "shardSelector": {options.ShardSelector}}.Encode()
		if len(query) < c.least || len(query) > 7800 {
			t.Errorf("%s: the selectors have %d bytes: %.200s", name, len(query), query)
		}
	}
}

func TestQuietNamespacesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUpstream()
		u.discard(low)
		<-time.After(rememberedFor)
		u.discard(high)
		<-time.After(time.Second)
		if got := u.streams.exclusions.namespaces.Keys(); fmt.Sprint(got) != "[default]" {
			t.Errorf("%v are excluded after a day", got)
		}
	})
}
