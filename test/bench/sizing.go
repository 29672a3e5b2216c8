package main

import (
	"fmt"
	"slices"
)

// objectsPerApp is the number of objects of each measured App: the App itself and its children.
const objectsPerApp = 5

// projected is the number of Apps in the projection of sizingTable. It is not measured.
const projected = 100_000

// sizingTable returns a table of the memory and the CPU time that an operator needs when it starts with a number of
// Apps at rest. The last row is a projection from the slopes of the other rows.
func (r *results) sizingTable() string {
	rows := [][]string{
		{
			"Apps", "objects", "live heap (MiB)", "memory at rest (MiB)", "peak of the memory (MiB)",
			"CPU time of the start (s)",
		},
	}
	figures := []struct {
		of     func(size) float64
		digits int
	}{
		{func(s size) float64 { return s.Heap / mebibyte }, 0},
		{func(s size) float64 { return s.Steady / mebibyte }, 0},
		{func(s size) float64 { return s.Peak / mebibyte }, 0},
		{func(s size) float64 { return s.CPU.Seconds() }, 1},
	}
	sizes := r.Sizes[names[0]]
	for _, s := range sizes {
		row := []string{fmt.Sprint(s.Apps), fmt.Sprint(s.Apps * objectsPerApp)}
		for _, f := range figures {
			row = append(row, fmt.Sprintf("%.*f", f.digits, f.of(s)))
		}
		rows = append(rows, row)
	}
	if len(sizes) > 1 {
		row := []string{fmt.Sprintf("%d, projected", projected), fmt.Sprint(projected * objectsPerApp)}
		for _, f := range figures {
			all := points(f.of, sizes)
			last := slices.MaxFunc(all, func(a, b point) int { return int(a.x - b.x) })
			row = append(row, fmt.Sprintf("%.*f", f.digits, last.y+(projected-last.x)*slope(all)))
		}
		rows = append(rows, row)
	}
	return table(rows...)
}
