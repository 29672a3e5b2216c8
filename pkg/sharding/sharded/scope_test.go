package sharded

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/sharding"
)

// part returns the shard from one hash to another, of an API server that selects shards.
func part(from, to int) Filter {
	bound := func(hash int) string {
		if hash == 256 {
			return "0x10000000000000000"
		}
		return fmt.Sprintf("0x%02x%s", hash, strings.Repeat("0", 14))
	}
	return NewFilter(sharding.NewSelector(sharding.ShardRangeRequirement{
		Key: "object.metadata.namespace", Start: bound(from), End: bound(to),
	}), &Streams{}, true)
}

func TestScopeHasAllItsShards(t *testing.T) {
	var every, second []Filter
	for i := range 256 {
		every = append(every, part(i, i+1))
		if i%2 == 1 {
			second = append(second, part(i, i+1))
		}
	}
	for name, c := range map[string]struct {
		shards []Filter
		ranges int
		lacks  []Filter
	}{
		"one shard":                 {[]Filter{part(4, 8)}, 1, []Filter{part(0, 4), part(8, 12), part(4, 9), part(3, 8)}},
		"shards in any order":       {[]Filter{part(8, 12), part(0, 4)}, 2, []Filter{part(4, 8), part(0, 12)}},
		"neighbours":                {[]Filter{part(4, 8), part(0, 4)}, 1, []Filter{part(8, 12)}},
		"a shard within another":    {[]Filter{part(0, 8), part(2, 4)}, 1, []Filter{part(8, 12)}},
		"the same shard twice":      {[]Filter{part(0, 8), part(0, 8)}, 1, []Filter{part(8, 12)}},
		"all shards":                {every, 1, nil},
		"more ranges than allowed":  {second, 32, []Filter{part(0, 1)}},
		"the last shard":            {[]Filter{part(255, 256)}, 1, []Filter{part(254, 256)}},
		"a shard that none selects": {[]Filter{part(0, 256)}, 1, []Filter{half(true, false)}},
	} {
		s := newStream(ofMetadataObjects, nil).scopeOf(c.shards...)
		if len(s.shards) != c.ranges {
			t.Errorf("%s: the scope has %d ranges, want %d", name, len(s.shards), c.ranges)
		}
		for _, f := range c.shards {
			if !s.has(f) {
				t.Errorf("%s: the scope lacks %s", name, f.selector)
			}
		}
		for _, f := range c.lacks {
			if s.has(f) {
				t.Errorf("%s: the scope has %s", name, f.selector)
			}
		}
		if selector := s.limit(metav1.ListOptions{}).ShardSelector; strings.Count(selector, "shardRange") != c.ranges {
			t.Errorf("%s: the selector is %q", name, selector)
		}
	}
}

func TestShardsWithoutSelectorsGetAllNamespacesThatAreNotExcluded(t *testing.T) {
	e := &exclusions{}
	e.discarded(object(high, 1))
	s := newStream(ofMetadataObjects, e).scopeOf(half(true, false))
	options := s.limit(metav1.ListOptions{})
	if options.ShardSelector != "" || options.FieldSelector != "metadata.namespace!="+high {
		t.Errorf("the options are %+v", options)
	}
	if !s.has(half(true, false)) || s.has(half(false, false)) {
		t.Errorf("the scope is %+v", s)
	}
}

// TestStreamSelectsItsShards lets two shards join and leave a stream of an API server that selects shards.
func TestStreamSelectsItsShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, u := newStream(ofMetadataObjects, nil), &upstream{}
		var selectors []string
		join := func(f Filter, version string) *reader {
			w, err := s.watch(t.Context(), f, metav1.ListOptions{ResourceVersion: version}, u.selecting(&selectors))
			return read(t, w, err)
		}
		one := join(half(true, true), "5")
		u.send(6, low)
		another := join(half(false, true), "6")
		u.send(7, low, high)
		one.expect(t, "one", "MODIFIED a 6", "BOOKMARK  6", "MODIFIED a 7", "BOOKMARK  8")
		another.expect(t, "another", "MODIFIED default 8", "BOOKMARK  8")
		one.Stop()
		synctest.Wait()
		again := join(half(true, true), "8")
		u.send(9, low)
		again.expect(t, "one again", "MODIFIED a 9", "BOOKMARK  9")
		u.expect(t, "5", "6") // the watch has the objects of both shards until it ends
		bound := "0x" + sharding.HashField("b")
		want := []string{
			"shardRange(object.metadata.namespace, '0x0000000000000000', '" + bound + "')",
			"shardRange(object.metadata.namespace, '0x0000000000000000', '0x10000000000000000')",
		}
		if fmt.Sprint(selectors) != fmt.Sprint(want) {
			t.Errorf("the selectors are %q, want %q", selectors, want)
		}
		another.Stop()
		again.Stop()
	})
}
