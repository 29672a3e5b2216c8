package shards

import (
	"cmp"
	"math"
	"slices"
)

// space is a hash with the number of objects in the namespaces that have this hash. A shard contains all of these
// namespaces or none. Users can easily find names with the same hash.
type space struct {
	hash   uint64
	weight int
}

// Balance returns the cuts of n shards between the namespaces that exist, so that the shards have about the same
// weight: each shard in turn takes about an equal part of the remaining weight. weights has the number of objects in
// each namespace. Ranges of equal size do not balance: the upper bits of the hash hardly depend on the last characters
// of a name, so namespaces with numbered names are in very few ranges. A cut is in the middle between the hashes of two
// namespaces, so that the shards divide new namespaces too. With fewer namespaces than shards, the remaining shards are
// ranges of equal size after the last of these cuts.
func Balance(weights map[string]int, n int) (cuts []uint64) {
	spaces, left := sorted(weights), 0
	for _, s := range spaces {
		left += s.weight
	}
	for parts := min(n, len(spaces)); parts > 1; parts-- {
		size, weight := 1, spaces[0].weight
		for len(spaces)-size >= parts && (weight+spaces[size].weight/2)*parts < left {
			weight += spaces[size].weight
			size++
		}
		before := spaces[size-1].hash
		cuts = append(cuts, before+(spaces[size].hash-before+1)/2)
		spaces, left = spaces[size:], left-weight
	}
	last := uint64(0)
	if len(cuts) > 0 {
		last = cuts[len(cuts)-1]
	}
	width := (math.MaxUint64 - last) / uint64(n-len(cuts))
	for len(cuts) < n-1 {
		last += width
		cuts = append(cuts, last)
	}
	return cuts
}

func sorted(weights map[string]int) (spaces []space) {
	byHash := map[uint64]int{}
	for name, weight := range weights {
		byHash[hashOf(name)] += max(weight, 1)
	}
	for hash, weight := range byHash {
		spaces = append(spaces, space{hash, weight})
	}
	slices.SortFunc(spaces, func(a, b space) int { return cmp.Compare(a.hash, b.hash) })
	return spaces
}

// Heaviest returns the weight of the heaviest shard.
func (l Layout) Heaviest(weights map[string]int) int { return slices.Max(l.weigh(weights)) }

// weigh returns the weight of each shard.
func (l Layout) weigh(weights map[string]int) []int {
	shards := make([]int, len(l.Cuts)+1)
	for name, weight := range weights {
		shards[l.ShardOf(name)] += max(weight, 1)
	}
	return shards
}

// A layout is replaced only if its heaviest shard weighs more than tolerance times the heaviest shard of the best
// layout, plus slack. The reason is that each new layout stops the whole operator for a moment.
const (
	tolerance = 1.5
	slack     = 100
)

// Next returns the layout with n shards that should follow l. If l is good enough, changed is false, and next is l with
// new weights. Otherwise, changed is true, and the caller sets the version of next.
func (l Layout) Next(weights map[string]int, n int) (next Layout, changed bool) {
	best := Layout{Cuts: Balance(weights, n)}
	lightest := best.Heaviest(weights)
	if l.Version > 0 && l.Shards() == n && float64(l.Heaviest(weights)) <= tolerance*float64(lightest)+slack {
		l.Weights = l.weigh(weights)
		return l, false
	}
	best.Weights = best.weigh(weights)
	return best, true
}
