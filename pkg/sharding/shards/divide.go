package shards

import "math"

// divide divides consecutive spaces into n parts, so that the sum of the squares of their weights is as small as
// possible. It returns where each part but the first begins. n must not exceed the number of spaces.
//
// The best begin of the last part never decreases with the number of spaces. A step for each number of parts therefore
// needs only m log m additions for m spaces (divide and conquer optimization:
// https://cp-algorithms.com/dynamic_programming/divide-and-conquer-dp.html).
func divide(spaces []space, n int) []int {
	s := division{
		sums: make([]float64, len(spaces)+1), before: make([]float64, len(spaces)+1), costs: make([]float64, len(spaces)+1),
	}
	for i, space := range spaces {
		s.sums[i+1] = s.sums[i] + float64(space.weight)
		s.costs[i+1] = s.sums[i+1] * s.sums[i+1]
	}
	var steps [][]int32
	for parts := 2; parts <= n; parts++ {
		s = division{sums: s.sums, before: s.costs, costs: s.before, begins: make([]int32, len(spaces)+1)}
		s.fill(parts, len(spaces), parts-1, len(spaces))
		steps = append(steps, s.begins)
	}
	begins, end := make([]int, len(steps)), len(spaces)
	for i := len(steps) - 1; i >= 0; i-- {
		end = int(steps[i][end])
		begins[i] = end
	}
	return begins
}

// division is a step of divide for a number of parts.
type division struct {
	sums   []float64 // of the weights of the first spaces
	before []float64 // the least sums of squares of the first spaces with one part less
	costs  []float64 // the least sums of squares of the first spaces
	begins []int32   // where the last part begins for that
}

// fill finds where the last part of the first low to high spaces begins. That is between from and to.
func (s division) fill(low, high, from, to int) {
	if low > high {
		return
	}
	end := (low + high) / 2
	least, at := math.Inf(1), from
	for begin := from; begin <= min(to, end-1); begin++ {
		weight := s.sums[end] - s.sums[begin]
		if cost := s.before[begin] + weight*weight; cost < least {
			least, at = cost, begin
		}
	}
	s.costs[end], s.begins[end] = least, int32(at)
	s.fill(low, end-1, from, at)
	s.fill(end+1, high, at, to)
}
