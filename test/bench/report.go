package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	_ "embed"
)

//go:embed report.md.tmpl
var reportText string

// floorName is that of the bare client.
const floorName = "floor"

// report writes a page of docs, and the plots beside it.
func (r *results) report(docs string) error {
	page, err := template.New("report").Parse(reportText)
	if err != nil {
		return err
	}
	plots := filepath.Join(docs, "benchmarks")
	if err := os.MkdirAll(plots, 0o755); err != nil {
		return err
	}
	if err := r.plots(plots); err != nil {
		return err
	}
	file, err := os.Create(filepath.Join(docs, "benchmarks.md"))
	if err != nil {
		return err
	}
	defer file.Close()
	return page.Execute(file, map[string]any{
		"Machine": r.Machine, "Turns": len(r.figures("Windlass", r.largest(), took)), "Apps": r.largest(), "Workers": workers, "Tape": r.Tape,
		"ForeignObjects": foreignObjects,
		"Throughput":     r.throughputTable(), "Requests": r.requestsTable(), "CPU": r.cpuTable(), "Memory": r.memoryTable(),
		"Foreign": r.foreignTable(), "Start": r.startTable(), "Growth": r.growthTable(),
		"Ats": r.atTable(), "Lateness": r.latenessTable(),
		"Passes": r.passesTable(), "Checks": waitingChecks, "Waits": r.waitsTable(),
	})
}

func took(t turn) float64 { return t.Took.Seconds() }
func cpu(t turn) float64  { return t.CPU.Seconds() }

// names are the contestants.
var names = []string{"Windlass", "careful peer", "default peer"}

const peerName = "careful peer"

// table is a table in Markdown.
func table(rows ...[]string) string {
	var text strings.Builder
	for i, row := range rows {
		fmt.Fprintf(&text, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			text.WriteString("|" + strings.Repeat("---|", len(row)) + "\n")
		}
	}
	return text.String()
}

func (r *results) throughputTable() string {
	rows := [][]string{{"", "of the floor's rate", "Apps a second"}}
	for _, name := range append(slices.Clone(names), floorName) {
		rate := r.figures(name, r.largest(), func(t turn) float64 { return float64(t.Apps) / t.Took.Seconds() })
		rows = append(rows, []string{name, spreadOf(r.ratios(floorName, name, r.largest(), took)).format(2), spreadOf(rate).format(0)})
	}
	return table(rows...)
}

func (r *results) requestsTable() string {
	seen := map[string]bool{}
	per := func(name string) map[string]float64 {
		all := map[string]float64{}
		for _, t := range r.Turns[name] {
			for request, n := range t.Requests {
				if t.Apps == r.largest() && !strings.HasPrefix(request, "WATCH") && !strings.HasPrefix(request, "LIST") {
					all[request] += float64(n) / float64(t.Apps) / float64(len(r.figures(name, t.Apps, took)))
					seen[request] = true
				}
			}
		}
		return all
	}
	columns := append(slices.Clone(names), floorName)
	rows := [][]string{append([]string{""}, columns...)}
	counts := map[string]map[string]float64{}
	for _, name := range columns {
		counts[name] = per(name)
	}
	for _, request := range slices.Sorted(maps.Keys(seen)) {
		row := []string{request}
		for _, name := range columns {
			row = append(row, fmt.Sprintf("%.3f", counts[name][request]))
		}
		rows = append(rows, row)
	}
	return table(rows...)
}

func (r *results) cpuTable() string {
	rows := [][]string{{"", "of the careful peer's", "CPU seconds for 1,000 Apps"}}
	for _, name := range names {
		per := r.figures(name, r.largest(), func(t turn) float64 { return t.CPU.Seconds() / float64(t.Apps) * 1000 })
		rows = append(rows, []string{name, spreadOf(r.ratios(name, peerName, r.largest(), cpu)).format(2), spreadOf(per).format(2)})
	}
	return table(rows...)
}

const kibibyte = 1024

func (r *results) memoryTable() string {
	rows := [][]string{{"", "heap for each App (KiB)", "of the careful peer's", "peak at the start, of what it needs then"}}
	heap := func(s size) float64 { return s.Heap }
	for _, name := range names {
		per, peer := slope(r.sizePoints(name, heap)), slope(r.sizePoints(peerName, heap))
		var last size
		if all := r.Sizes[name]; len(all) > 0 {
			last = all[len(all)-1]
		}
		rows = append(rows, []string{name, fmt.Sprintf("%.1f", per/kibibyte), fmt.Sprintf("%.2f", per/peer), fmt.Sprintf("%.2f", last.Peak/last.Steady)})
	}
	return table(rows...)
}

func (r *results) foreignTable() string {
	const mebibyte = 1 << 20
	rows := [][]string{{"", "more heap (MiB)", "more received (MiB)"}}
	for _, name := range names {
		b := r.Burdens[name]
		rows = append(rows, []string{name, fmt.Sprintf("%.2f", (b.Heap-b.HeapWithout)/mebibyte), fmt.Sprintf("%.2f", (b.Received-b.ReceivedWithout)/mebibyte)})
	}
	return table(rows...)
}

func (r *results) startTable() string {
	rows := [][]string{{"", "passes for other Apps before", "of the careful peer's time", "writes of a start without a change"}}
	for _, name := range names {
		var before, ratios []float64
		for i, s := range r.Restarts[name] {
			before = append(before, float64(s.Before))
			if i < len(r.Restarts[peerName]) {
				ratios = append(ratios, s.Took.Seconds()/r.Restarts[peerName][i].Took.Seconds())
			}
		}
		writes := 0
		for _, s := range r.Sizes[name] {
			writes += s.Requests.changes()
		}
		rows = append(rows, []string{name, spreadOf(before).format(0), spreadOf(ratios).format(2), fmt.Sprint(writes)})
	}
	return table(rows...)
}

func (r *results) passesTable() string {
	rows := [][]string{{"a pass", "allocations", "bytes", "of the other's time"}}
	all := r.Passes[comparesAll]
	for _, part := range []string{nothingToDo, comparesAll} {
		c := r.Passes[part]
		rows = append(rows, []string{strings.ReplaceAll(part, "_", " "), fmt.Sprintf("%.0f", c.Allocations), fmt.Sprintf("%.0f", c.Bytes), fmt.Sprintf("%.4f", c.Nanoseconds/all.Nanoseconds)})
	}
	return table(rows...)
}

func (r *results) waitsTable() string {
	rows := [][]string{{"", "passes between a change and its own"}}
	for _, name := range slices.Sorted(maps.Keys(r.Waits)) {
		rows = append(rows, []string{name, fmt.Sprint(r.Waits[name])})
	}
	return table(rows...)
}

func (r *results) growthTable() string {
	rows := [][]string{{"", "time", "CPU time", "heap"}}
	for _, name := range append(slices.Clone(names), floorName) {
		row := []string{name, fmt.Sprintf("%.2f", growth(r.points(name, took)))}
		if name == floorName {
			row = append(row, "", "")
		} else {
			row = append(row, fmt.Sprintf("%.2f", growth(r.points(name, cpu))), fmt.Sprintf("%.2f", growth(r.sizePoints(name, func(s size) float64 { return s.Heap }))))
		}
		rows = append(rows, row)
	}
	return table(rows...)
}

func (r *results) atTable() string {
	rows := [][]string{{"Ats", "last Pod, of the floor's time"}}
	var ratios []float64
	for i, c := range r.Crowds {
		ratios = append(ratios, c.Last.Seconds()/r.CrowdFloors[i].Took.Seconds())
	}
	if len(ratios) > 0 {
		rows = append(rows, []string{fmt.Sprint(r.Crowds[0].Ats), spreadOf(ratios).format(2)})
	}
	return table(rows...)
}

func (r *results) latenessTable() string {
	rows := [][]string{{"Ats that are not due", "half within, of what it is without", "99 of 100 within, of what it is without"}}
	for _, l := range r.Lateness {
		of := func(p int) string {
			return fmt.Sprintf("%.2f", l.percentile(p).Seconds()/r.Lateness[0].percentile(p).Seconds())
		}
		rows = append(rows, []string{fmt.Sprint(l.Idle), of(50), of(99)})
	}
	return table(rows...)
}

// plots draws cost against size.
func (r *results) plots(dir string) error {
	var times, cpus, heaps []line
	for _, name := range names {
		times = append(times, line{name, r.points(name, took)})
		cpus = append(cpus, line{name, r.points(name, cpu)})
		heaps = append(heaps, line{name, r.sizePoints(name, func(s size) float64 { return s.Heap / (1 << 20) })})
	}
	times = append(times, line{floorName, r.points(floorName, took)})
	for _, p := range []struct {
		file, title, unit string
		lines             []line
	}{
		{"time.svg", "From the first child to the last status", "seconds", times},
		{"cpu.svg", "CPU time", "seconds", cpus},
		{"heap.svg", "Heap at rest", "MiB", heaps},
	} {
		if len(p.lines[0].points) == 0 {
			continue
		}
		if err := plot(filepath.Join(dir, p.file), p.title, p.unit, p.lines); err != nil {
			return err
		}
	}
	return nil
}
