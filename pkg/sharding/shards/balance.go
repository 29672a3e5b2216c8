package shards

import (
	"cmp"
	"math/bits"
	"slices"
)

// space is a hash with the number of objects in its namespaces. Names with the same hash are easy to find, and cannot
// be divided.
type space struct {
	hash   uint64
	weight int
}

// Balance returns the cuts of n shards between the namespaces that exist, so that the shards are as equal as possible:
// the sum of the squares of their weights is as small as it can be. weights has the number of objects in each
// namespace. Ranges of equal size do not balance: the upper bits of the hash hardly depend on the last characters of a
// name, so namespaces with numbered names are in very few ranges. A cut is in the middle between two namespaces, so
// that it divides new namespaces too.
func Balance(weights map[string]int, n int) (cuts []uint64) {
	spaces := sorted(weights)
	for _, begin := range divide(spaces, min(n, len(spaces))) {
		before := spaces[begin-1].hash
		cuts = append(cuts, before+(spaces[begin].hash-before+1)/2)
	}
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
func (l Layout) Heaviest(weights map[string]int) int { return slices.Max(l.weigh(weights)) }

// weigh returns the weight of each shard.
func (l Layout) weigh(weights map[string]int) []int {
	shards := make([]int, len(l.Cuts)+1)
	for name, weight := range weights {
		shards[l.ShardOf(name)] += max(weight, 1)
	}
	return shards
}

// A layout is replaced only if its heaviest shard has more than tolerance times the weight, and more than slack more
// objects, than necessary: each new layout stops the whole operator for a moment.
const (
	tolerance = 1.5
	slack     = 100
)

// Next returns the layout with n shards that should follow l, without its version. changed is false if l is good
// enough, and then only the weights differ.
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
