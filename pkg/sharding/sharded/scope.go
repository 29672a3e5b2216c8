package sharded

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/sharding"
)

// maxRanges limits the number of ranges in a selector of shards. Each range takes about 110 bytes in a URL, and even
// proxies with small buffers accept URLs of 4 KB.
const maxRanges = 32

// scope says which objects a watch of a stream receives. The zero scope receives all.
type scope struct {
	shards   []sharding.ShardRangeRequirement // that the API server selects; nil means all
	excluded []string                         // the namespaces that the API server excludes
}

// scopeOf returns the scope of a watch for some shards. The watch may receive objects of other shards too.
func (s *stream) scopeOf(shards ...Filter) scope {
	if slices.ContainsFunc(shards, func(f Filter) bool { return !f.selects() }) {
		return scope{excluded: s.exclusions.choose(shards...)}
	}
	return scope{shards: union(shards)}
}

// union returns the ranges of some shards, in ascending order. Ranges that touch are one range.
func union(shards []Filter) (ranges []sharding.ShardRangeRequirement) {
	for _, f := range shards {
		ranges = append(ranges, f.selector.Requirements()...)
	}
	slices.SortFunc(ranges, func(a, b sharding.ShardRangeRequirement) int { return cmp.Compare(a.Start, b.Start) })
	merged := ranges[:0]
	for _, next := range ranges {
		if last := len(merged) - 1; last >= 0 && !sharding.HexLess(merged[last].End, next.Start) {
			merged[last].End = later(merged[last].End, next.End)
		} else {
			merged = append(merged, next)
		}
	}
	for len(merged) > maxRanges {
		merged = pairs(merged)
	}
	return merged
}

// pairs joins every two ranges, with the gap between them, into one range.
func pairs(ranges []sharding.ShardRangeRequirement) (halved []sharding.ShardRangeRequirement) {
	for pair := range slices.Chunk(ranges, 2) {
		first := pair[0]
		first.End = pair[len(pair)-1].End
		halved = append(halved, first)
	}
	return halved
}

func later(a, b string) string {
	if sharding.HexLess(a, b) {
		return b
	}
	return a
}

// has reports whether a watch with this scope receives all objects of a shard.
func (s scope) has(f Filter) bool {
	if s.shards == nil {
		return !slices.ContainsFunc(s.excluded, f.hasNamespace)
	}
	return f.selects() && !slices.ContainsFunc(f.selector.Requirements(), func(r sharding.ShardRangeRequirement) bool {
		return !slices.ContainsFunc(s.shards, func(of sharding.ShardRangeRequirement) bool {
			return !sharding.HexLess(r.Start, of.Start) && !sharding.HexLess(of.End, r.End)
		})
	})
}

// limit returns the options of a watch with this scope.
func (s scope) limit(options metav1.ListOptions) metav1.ListOptions {
	if s.shards != nil {
		options.ShardSelector = sharding.NewSelector(s.shards...).String()
	}
	return exclude(options, s.excluded)
}
