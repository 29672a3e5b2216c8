package main

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
	"time"

	_ "embed"
)

//go:embed report.md.tmpl
var reportText string

// floorName is the name of the contestant that only sends recorded requests.
const floorName = "floor"

//go:embed shards.md.tmpl
var shardsText string

// report writes benchmarks.md into the directory docs, and its plots and shards.md into docs/benchmarks. It does not
// change a page whose measurements were not taken.
func (r *results) report(docs string) error {
	parts := filepath.Join(docs, "benchmarks")
	if err := os.MkdirAll(parts, 0o755); err != nil {
		return err
	}
	if len(r.Sharings) > 0 {
		if err := writePage(filepath.Join(parts, "shards.md"), shardsText, map[string]any{
			"Machine": r.Machine, "Tenants": tenants, "Crowded": crowded, "Pace": int(time.Second / pace),
			"Turns":   1 + slices.MaxFunc(r.Sharings, func(a, b sharing) int { return cmp.Compare(a.Turn, b.Turn) }).Turn,
			"Sharing": r.sharingTable(),
		}); err != nil {
			return err
		}
	}
	if len(r.Turns) == 0 {
		return nil
	}
	if err := r.plots(parts); err != nil {
		return err
	}
	return writePage(filepath.Join(docs, "benchmarks.md"), reportText, map[string]any{
		"Machine": r.Machine, "Runs": r.runs(), "Stolen": r.mostStolen(), "Workers": workers, "Tape": r.Tape,
		"ForeignObjects": foreignObjects,
		"Throughput":     r.throughputTable(), "Requests": r.requestsTable(), "CPU": r.cpuTable(), "Memory": r.memoryTable(),
		"Sizing": r.sizingTable(), "Objects": objectsPerApp,
		"Foreign": r.foreignTable(), "AtRest": r.mostAtRest(), "Start": r.startTable(), "Growth": r.growthTable(),
		"Ats": r.atTable(), "Lateness": r.latenessTable(),
		"ReadyApps": readyApps, "Ready": r.readyTable(),
		"Checks": waitingChecks, "Waits": r.waitsTable(),
	})
}

// writePage writes a page from a template and the values in it.
func writePage(path, text string, values map[string]any) error {
	page, err := template.New("page").Parse(text)
	if err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	return page.Execute(file, values)
}

func took(t turn) float64       { return t.Took.Seconds() }
func cpu(t turn) float64        { return t.CPU.Seconds() }
func serverCPU(t turn) float64  { return t.Server.Seconds() }
func heap(s size) float64       { return s.Heap }
func started(r restart) float64 { return r.Took.Seconds() }
func lastOf(c crowd) float64    { return c.Last.Seconds() }
func changesOf(t turn) float64  { return float64(t.Requests.changes()) }

// names are the names of the contestants, except the floor.
var names = []string{"Windlass", "careful peer", "default peer"}

const peerName = "careful peer"

// table returns a table in Markdown. The first row is its head.
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
	rows := [][]string{append(r.sizesOfTurns(), "Apps a second, at the largest number")}
	for _, name := range append(slices.Clone(names), floorName) {
		row := []string{name}
		for _, p := range points(took, r.Turns[name]) {
			row = append(row, spreadOf(r.ratios(floorName, name, int(p.x), took)).format(2))
		}
		rate := r.figures(name, r.largest(), func(t turn) float64 { return float64(t.Apps) / t.Took.Seconds() })
		rows = append(rows, append(row, spreadOf(rate).format(0)))
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
	rows := [][]string{
		append(r.sizesOfTurns(), "CPU seconds for 1,000 Apps", "CPU seconds of the API server for 1,000 Apps", "share"),
	}
	for _, name := range append(slices.Clone(names), floorName) {
		row := []string{name}
		for _, p := range points(cpu, r.Turns[name]) {
			row = append(row, spreadOf(r.ratios(name, peerName, int(p.x), cpu)).format(2))
		}
		for _, of := range []func(turn) float64{cpu, serverCPU} {
			per := r.figures(name, r.largest(), func(t turn) float64 { return of(t) / float64(t.Apps) * 1000 })
			row = append(row, spreadOf(per).format(2))
		}
		share := r.figures(name, r.largest(), func(t turn) float64 { return cpu(t) / serverCPU(t) })
		rows = append(rows, append(row, spreadOf(share).format(3)))
	}
	return table(rows...)
}

// sizesOfTurns returns the head of a table with a column for each number of Apps in a turn.
func (r *results) sizesOfTurns() []string {
	row := []string{""}
	for _, p := range points(took, r.Turns[names[0]]) {
		row = append(row, fmt.Sprintf("%.0f Apps", p.x))
	}
	return row
}

const kibibyte, mebibyte = 1 << 10, 1 << 20

func (r *results) memoryTable() string {
	rows := [][]string{
		{"", "heap for each App (KiB)", "ratio to the careful peer", "peak memory, ratio to memory at rest"},
	}
	for _, name := range names {
		per, peer := slope(points(heap, r.Sizes[name])), slope(points(heap, r.Sizes[peerName]))
		var last size
		if all := r.Sizes[name]; len(all) > 0 {
			last = all[len(all)-1]
		}
		rows = append(rows, []string{
			name, fmt.Sprintf("%.1f", per/kibibyte), fmt.Sprintf("%.2f", per/peer), fmt.Sprintf("%.2f", last.Peak/last.Steady),
		})
	}
	return table(rows...)
}

func (r *results) foreignTable() string {
	rows := [][]string{{"", "additional heap (MiB)", "additional data received (MiB)"}}
	for _, name := range names {
		b := r.Burdens[name]
		more := func(with, without float64) string {
			return fmt.Sprintf("%.2f", math.Round((with-without)/mebibyte*100)/100+0) // + 0 avoids -0.00
		}
		rows = append(rows, []string{name, more(b.Heap, b.HeapWithout), more(b.Received, b.ReceivedWithout)})
	}
	return table(rows...)
}

// mostAtRest returns the largest number of Apps at rest. The table of starts is for this number.
func (r *results) mostAtRest() (apps int) {
	for _, s := range r.Restarts[names[0]] {
		apps = max(apps, s.Apps)
	}
	return apps
}

func (r *results) startTable() string {
	rows := [][]string{
		{
			"", "reconciles of other Apps before", "time, ratio to the careful peer",
			"watches, lists and writes of a start without a change",
		},
	}
	for _, name := range names {
		var before, ratios []float64
		for i, s := range r.Restarts[name] {
			if s.Apps != r.mostAtRest() {
				continue
			}
			before = append(before, float64(s.Before))
			if i < len(r.Restarts[peerName]) {
				ratios = append(ratios, started(s)/started(r.Restarts[peerName][i]))
			}
		}
		watches, lists, writes := 0, 0, 0
		for _, s := range r.Sizes[name] {
			watches, lists = max(watches, s.Requests.most("WATCH")), max(lists, s.Requests.most("LIST"))
			writes += s.Requests.changes()
		}
		rows = append(rows, []string{
			name, spreadOf(before).format(0), spreadOf(ratios).format(2), fmt.Sprintf("%d, %d, %d", watches, lists, writes),
		})
	}
	return table(rows...)
}

func (r *results) waitsTable() string {
	rows := [][]string{{"", "reconciles between a change and its own reconcile"}}
	for _, name := range slices.Sorted(maps.Keys(r.Waits)) {
		rows = append(rows, []string{name, fmt.Sprint(r.Waits[name])})
	}
	return table(rows...)
}

func (r *results) growthTable() string {
	rows := [][]string{{"", "time", "writes", "CPU time", "heap", "start", "last Pod of the Ats"}}
	exponent := func(of []point) string {
		if len(of) < 2 {
			return ""
		}
		return fmt.Sprintf("%.2f", growth(of))
	}
	for _, name := range names {
		turns, ats := r.Turns[name], ""
		if name == names[0] {
			ats = exponent(points(lastOf, r.Crowds))
		}
		rows = append(rows, []string{name, exponent(points(took, turns)), exponent(points(changesOf, turns)),
			exponent(points(cpu, turns)),
			exponent(points(heap, r.Sizes[name])), exponent(points(started, r.Restarts[name])), ats})
	}
	floor := r.Turns[floorName]
	rows = append(rows, []string{
		floorName, exponent(points(took, floor)), exponent(points(changesOf, floor)), exponent(points(cpu, floor)), "",
		"", exponent(points(lastOf, r.CrowdFloors)),
	})
	return table(rows...)
}

func (r *results) atTable() string {
	rows := [][]string{{"Ats", "time until the last Pod, ratio to the floor"}}
	ratios := map[int][]float64{}
	for i, c := range r.Crowds {
		ratios[c.Ats] = append(ratios[c.Ats], lastOf(c)/lastOf(r.CrowdFloors[i]))
	}
	for _, ats := range slices.Sorted(maps.Keys(ratios)) {
		rows = append(rows, []string{fmt.Sprint(ats), spreadOf(ratios[ats]).format(2)})
	}
	return table(rows...)
}

func (r *results) latenessTable() string {
	rows := [][]string{{"other Ats", "median of the delay, ratio", "99th percentile of the delay, ratio"}}
	for _, l := range r.Lateness {
		of := func(p int) string {
			return fmt.Sprintf("%.2f", l.percentile(p).Seconds()/r.Lateness[0].percentile(p).Seconds())
		}
		rows = append(rows, []string{fmt.Sprint(l.Idle), of(50), of(99)})
	}
	return table(rows...)
}
