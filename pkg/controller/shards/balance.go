package shards

import (
	"cmp"
	"math/bits"
	"slices"
	"sort"
)

// space is a hash with the number of objects in its namespaces. Names with the same hash are easy to find, and cannot be
// divided.
type space struct {
	hash   uint64
	weight int
}

// Balance returns the cuts of n shards between the namespaces that exist, so that the heaviest shard is as light as
// possible. weights has the number of objects in each namespace. Ranges of equal size do not
// balance: the upper bits of the hash hardly depend on the last characters of a name, so namespaces with numbered names
// are in very few ranges.
func Balance(weights map[string]int, n int) []uint64 {
	spaces := sorted(weights)
	total := 0
	for _, s := range spaces {
		total += s.weight
	}
	// The lightest limit for which n shards are enough.
	limit := sort.Search(total, func(limit int) bool {
		_, ok := cutsWithin(spaces, n, limit)
		return ok
	})
	cuts, _ := cutsWithin(spaces, n, limit)
	for len(cuts) < n-1 {
		cuts = halveWidest(cuts)
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

// cutsWithin fills one shard after another up to the limit, and returns the cuts. ok is false if n shards are not enough.
// A cut is in the middle between two namespaces, so that it divides new namespaces too.
func cutsWithin(spaces []space, n, limit int) (cuts []uint64, ok bool) {
	held := 0
	for i, s := range spaces {
		if s.weight > limit {
			return nil, false
		}
		if held += s.weight; held > limit {
			before := spaces[i-1].hash
			cuts, held = append(cuts, before+(s.hash-before+1)/2), s.weight
		}
	}
	return cuts, len(cuts) < n
}

// halveWidest adds a cut in the middle of the widest range.
func halveWidest(cuts []uint64) []uint64 {
	widest, at, width := 0, uint64(0), uint64(0)
	for i := range len(cuts) + 1 {
		start, end := uint64(0), uint64(0) // an end of 0 stands for 2^64
		if i > 0 {
			start = cuts[i-1]
		}
		if i < len(cuts) {
			end = cuts[i]
		}
		// The difference of the whole range, 2^64, overflows to 0, which is wider than all others.
		if difference := end - start; i == 0 && len(cuts) == 0 || difference > width {
			middle, _ := bits.Add64(start, (difference-1)/2+1, 0)
			widest, at, width = i, middle, difference
		}
	}
	return slices.Insert(cuts, widest, at)
}

// Heaviest returns the weight of the heaviest shard.
func (l Layout) Heaviest(weights map[string]int) int {
	shards := make([]int, len(l.Cuts)+1)
	for name, weight := range weights {
		shards[l.ShardOf(name)] += max(weight, 1)
	}
	return slices.Max(shards)
}

// A layout is replaced only if its heaviest shard has more than tolerance times the weight, and more than slack more objects, than
// necessary: each new layout stops the whole operator for a moment.
const (
	tolerance = 1.5
	slack     = 100
)

// Next returns the layout with n shards that should follow l, without its version. changed is false if l is good enough.
func (l Layout) Next(weights map[string]int, n int) (next Layout, changed bool) {
	best := Layout{Cuts: Balance(weights, n)}
	lightest := best.Heaviest(weights)
	if l.Version > 0 && l.Shards() == n && float64(l.Heaviest(weights)) <= tolerance*float64(lightest)+slack {
		return l, false
	}
	return best, true
}
