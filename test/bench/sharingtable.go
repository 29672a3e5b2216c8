package main

import (
	"fmt"
	"time"
)

// sharing is a measurement of replicas of Windlass that share some Apps.
type sharing struct {
	Apps int
	// Served says that the API server has the feature ShardedListAndWatch.
	Served bool
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
	// Rest is the number of requests that the replica sends in a minute without changes.
	Rest float64
}

func (s sharing) objects() int { return s.Apps }

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

// sharingTable compares replicas that share the Apps with a single one.
func (r *results) sharingTable() string {
	rows := [][]string{{"Apps", "feature", "replicas", "heap of the largest replica", "ratio", "bytes from watches, largest replica", "ratio", "CPU time of all replicas", "ratio", "CPU time of the API server, ratio", "writes", "requests of all replicas in a minute at rest"}}
	single := map[string]sharing{}
	key := func(s sharing) string { return fmt.Sprint(s.Apps, s.Served) }
	for _, s := range r.Sharings {
		if len(s.Replicas) == 1 {
			single[key(s)] = s
		}
	}
	for _, s := range r.Sharings {
		one, which, feature := single[key(s)], "1", "off"
		if n := len(s.Replicas); n > 1 {
			which = fmt.Sprintf("%d, %d shards", n, shards)
		}
		if s.Served {
			feature = "on"
		}
		row := []string{fmt.Sprint(s.Apps), feature, which}
		for _, f := range []struct {
			value, by float64
			format    string
		}{
			{s.largest(heapOf) / mebibyte, one.largest(heapOf) / mebibyte, "%.1f MiB"},
			{s.largest(watchedOf) / mebibyte, one.largest(watchedOf) / mebibyte, "%.1f MiB"},
			{s.sum(cpuTimeOf), one.sum(cpuTimeOf), "%.1f s"},
		} {
			row = append(row, fmt.Sprintf(f.format, f.value), fmt.Sprintf("%.2f", f.value/f.by))
		}
		rows = append(rows, append(row, fmt.Sprintf("%.2f", s.Server.Seconds()/one.Server.Seconds()), fmt.Sprint(s.Requests.changes()), fmt.Sprintf("%.0f", s.sum(restOf))))
	}
	return table(rows...)
}

func heapOf(s sharer) float64    { return s.Heap }
func watchedOf(s sharer) float64 { return s.Watched }
func cpuTimeOf(s sharer) float64 { return s.CPU.Seconds() }
func restOf(s sharer) float64    { return s.Rest }
