package shards

import (
	"cmp"
	"math"
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
// possible, and the others are about equal. weights has the number of objects in each namespace. Ranges of equal size do not
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
		return n >= shardsFor(spaces, limit)[0]
	})
	cuts := cutsWithin(spaces, total, n, limit)
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

// tooMany is a number of shards that no operator has.
const tooMany = math.MaxInt32

// shardsFor returns, for each space, how many shards with at most limit objects are enough for this space and all that follow:
// at least tooMany if one of them exceeds the limit.
func shardsFor(spaces []space, limit int) []int {
	needed := make([]int, len(spaces)+1)
	held, end := 0, len(spaces) // the shard that begins at i ends before end
	for i := len(spaces) - 1; i >= 0; i-- {
		held += spaces[i].weight
		for held > limit && end > i {
			end--
			held -= spaces[end].weight
		}
		if needed[i] = tooMany; end > i {
			needed[i] = needed[end] + 1
		}
	}
	return needed
}

// cutsWithin fills one shard after another with an equal part of what is left, as far as no shard has more than limit objects. A cut is in
// the middle between two namespaces, so that it divides new namespaces too.
func cutsWithin(spaces []space, total, n, limit int) (cuts []uint64) {
	needed, left, held := shardsFor(spaces, limit), total, 0
	for i, s := range spaces {
		rest := n - len(cuts) - 1 // shards
		full := held+s.weight > limit || (held+s.weight/2)*(rest+1) > left
		if held > 0 && full && needed[i] <= rest {
			before := spaces[i-1].hash
			cuts = append(cuts, before+(s.hash-before+1)/2)
			left, held = left-held, 0
		}
		held += s.weight
	}
	return cuts
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
