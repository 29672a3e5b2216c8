package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// sharing is a measurement of replicas of Windlass that share some Apps.
type sharing struct {
	Apps int
	// Served says that the API server has the feature ShardedListAndWatch.
	Served bool
	// Turn is the number of the turn, from 0. In each turn, a single replica and several replicas are measured.
	Turn int
	// Replicas has the figures of each replica. A single replica has no shards.
	Replicas []sharer
	// Server is the CPU time of the API server during the burst.
	Server time.Duration
	// Requests are the requests that all replicas send during the burst.
	Requests requests
}

// sharer has the figures of a replica.
type sharer struct {
	// Heap is the live heap after the burst, and Steady the resident memory then, in bytes.
	Heap, Steady float64
	// Watched is the number of bytes that the replica has received from watches during the burst, and CPU its CPU time.
	Watched float64
	CPU     time.Duration
	// RestRequests is the number of requests that the replica sends in a minute without changes, and RestCPU its CPU
	// time. They are measured in the first turn only.
	RestRequests float64
	RestCPU      time.Duration
}

func (s sharing) objects() int { return s.Apps }

func (s sharing) feature() string {
	if s.Served {
		return "on"
	}
	return "off"
}

// largest returns the largest figure of a replica.
func (s sharing) largest(of func(sharer) float64) (largest float64) {
	for _, r := range s.Replicas {
		largest = max(largest, of(r))
	}
	return largest
}

// sum returns the sum of a figure of all replicas.
func (s sharing) sum(of func(sharer) float64) (sum float64) {
	for _, r := range s.Replicas {
		sum += of(r)
	}
	return sum
}

// sharings are measurements of the same replicas, turn by turn.
type sharings []sharing

// figures returns one figure for each turn.
func (all sharings) figures(of func(sharing) float64) (figures []float64) {
	for _, s := range all {
		figures = append(figures, of(s))
	}
	return figures
}

// ratios returns one ratio for each turn: the figure of these replicas, divided by the figure of other replicas in the
// same turn.
func (all sharings) ratios(by sharings, of func(sharing) float64) (ratios []float64) {
	divisors := by.figures(of)
	for i, figure := range all.figures(of)[:min(len(all), len(by))] {
		ratios = append(ratios, figure/divisors[i])
	}
	return ratios
}

// sharingsOf returns the measurements of a number of replicas.
func (r *results) sharingsOf(apps int, served bool, replicas int) (all sharings) {
	for _, s := range r.Sharings {
		if s.Apps == apps && s.Served == served && len(s.Replicas) == replicas {
			all = append(all, s)
		}
	}
	return all
}

// sharingTable returns a table that compares replicas that share the Apps with a single replica.
func (r *results) sharingTable() string {
	rows := [][]string{{
		"Apps", "feature", "replicas", "heap of the largest replica", "ratio", "bytes from watches, largest replica", "ratio",
		"CPU time of all replicas", "ratio", "CPU time of the API server, ratio", "writes",
		"requests of all replicas in a minute at rest", "CPU time of all replicas in a minute at rest",
	}}
	all := slices.SortedStableFunc(slices.Values(r.Sharings), func(a, b sharing) int {
		return cmp.Or(cmp.Compare(a.Apps, b.Apps), cmp.Compare(a.feature(), b.feature()),
			cmp.Compare(len(a.Replicas), len(b.Replicas)))
	})
	for _, s := range all {
		if s.Turn > 0 {
			continue
		}
		these, single := r.sharingsOf(s.Apps, s.Served, len(s.Replicas)), r.sharingsOf(s.Apps, s.Served, 1)
		which := "1"
		if n := len(s.Replicas); n > 1 {
			which = fmt.Sprintf("%d, %d shards", n, shards)
		}
		row := []string{fmt.Sprint(s.Apps), s.feature(), which}
		for _, f := range []struct {
			of   func(sharing) float64
			unit string
		}{
			{func(s sharing) float64 { return s.largest(heapOf) / mebibyte }, "MiB"},
			{func(s sharing) float64 { return s.largest(watchedOf) / mebibyte }, "MiB"},
			{func(s sharing) float64 { return s.sum(cpuTimeOf) }, "s"},
		} {
			row = append(row, fmt.Sprintf("%.1f %s", spreadOf(these.figures(f.of)).middle, f.unit),
				spreadOf(these.ratios(single, f.of)).format(2))
		}
		server := func(s sharing) float64 { return s.Server.Seconds() }
		rows = append(rows, append(row, spreadOf(these.ratios(single, server)).format(2), fmt.Sprint(s.Requests.changes()),
			fmt.Sprintf("%.0f", s.sum(func(r sharer) float64 { return r.RestRequests })),
			fmt.Sprintf("%.2f s", s.sum(func(r sharer) float64 { return r.RestCPU.Seconds() }))))
	}
	return table(rows...)
}

func heapOf(s sharer) float64    { return s.Heap }
func watchedOf(s sharer) float64 { return s.Watched }
func cpuTimeOf(s sharer) float64 { return s.CPU.Seconds() }
