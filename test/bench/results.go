package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"time"
)

// results are all that was measured, by contestant. They are what the JSON file holds.
type results struct {
	Machine string
	// Begun is when the run of the bench began that took a measure.
	Begun map[string]time.Time
	// Stolen is the part of the machine's CPU time that was taken for other machines on the
	// same hardware while a measure was taken.
	Stolen   map[string]float64
	Turns    map[string][]turn
	Sizes    map[string][]size
	Restarts map[string][]restart
	Burdens  map[string]burden
	Tape     []string
	// Crowds are Windlass', and CrowdFloors what the floor took for as many Ats.
	Crowds, CrowdFloors []crowd
	Lateness            []lateness
	// Passes are what passes of Windlass at rest take, and Waits how many begin before that
	// for a change while checks wait, by the engine.
	Passes map[string]cost
	Waits  map[string]int
}

func newResults() *results {
	return &results{Machine: machine(), Begun: map[string]time.Time{}, Stolen: map[string]float64{}, Turns: map[string][]turn{}, Sizes: map[string][]size{}, Restarts: map[string][]restart{}, Burdens: map[string]burden{}}
}

// machine tells what the figures were measured on.
func machine() string {
	model := "a CPU of an unknown model"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
				return fmt.Sprintf("%d × %s", strings.Count(string(text), "model name"), strings.TrimSpace(value))
			}
		}
	}
	return model
}

// runs is how many runs of the bench took the measures.
func (r *results) runs() int {
	return len(slices.CompactFunc(slices.SortedFunc(maps.Values(r.Begun), time.Time.Compare), time.Time.Equal))
}

// mostStolen is the most of the machine's CPU time, in percent, that was taken from a measure.
func (r *results) mostStolen() float64 {
	most := 0.0
	for _, part := range r.Stolen {
		most = max(most, 100*part)
	}
	return most
}

// write puts the results into a file.
func (r *results) write(file string) error { return writeJSON(file, r) }

func writeJSON(file string, of any) error {
	text, err := json.MarshalIndent(of, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

func readResults(file string) (*results, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	r := newResults()
	return r, json.Unmarshal(text, r)
}

// spread is the middle of some figures, and the least and the greatest.
type spread struct{ least, middle, greatest float64 }

func spreadOf(figures []float64) spread {
	if len(figures) == 0 {
		return spread{math.NaN(), math.NaN(), math.NaN()}
	}
	sorted := slices.Sorted(slices.Values(figures))
	n := len(sorted)
	return spread{sorted[0], (sorted[(n-1)/2] + sorted[n/2]) / 2, sorted[n-1]}
}

// format writes a spread; digits are those behind the point.
func (s spread) format(digits int) string {
	text := fmt.Sprintf("%.*f", digits, s.middle)
	if s.least != s.greatest {
		text += fmt.Sprintf(" (%.*f–%.*f)", digits, s.least, digits, s.greatest)
	}
	return text
}

// point is a cost at a size.
type point struct{ x, y float64 }

// slope is what each one more costs, by least squares.
func slope(points []point) float64 {
	var n, sx, sy, sxx, sxy float64
	for _, p := range points {
		n, sx, sy, sxx, sxy = n+1, sx+p.x, sy+p.y, sxx+p.x*p.x, sxy+p.x*p.y
	}
	return (n*sxy - sx*sy) / (n*sxx - sx*sx)
}

// growth is the exponent by which a cost grows with the size: 1 means that twice as many
// cost twice as much.
func growth(points []point) float64 {
	var logs []point
	for _, p := range points {
		if p.x > 0 && p.y > 0 {
			logs = append(logs, point{math.Log(p.x), math.Log(p.y)})
		}
	}
	return slope(logs)
}

// figures are those of the turns of a contestant with so many Apps.
func (r *results) figures(name string, apps int, of func(turn) float64) (all []float64) {
	for _, t := range r.Turns[name] {
		if t.Apps == apps {
			all = append(all, of(t))
		}
	}
	return all
}

// ratios are the figures of a contestant by those of another, turn by turn.
func (r *results) ratios(name, by string, apps int, of func(turn) float64) (all []float64) {
	a, b := r.figures(name, apps, of), r.figures(by, apps, of)
	for i := range min(len(a), len(b)) {
		all = append(all, a[i]/b[i])
	}
	return all
}

// measured is a figure for so many objects.
type measured interface{ objects() int }

func (t turn) objects() int    { return t.Apps }
func (s size) objects() int    { return s.Apps }
func (r restart) objects() int { return r.Apps }
func (c crowd) objects() int   { return c.Ats }

// points are the middle figures, by how many objects they are for.
func points[M measured](of func(M) float64, all []M) (middle []point) {
	figures := map[int][]float64{}
	for _, m := range all {
		figures[m.objects()] = append(figures[m.objects()], of(m))
	}
	for _, n := range slices.Sorted(maps.Keys(figures)) {
		middle = append(middle, point{float64(n), spreadOf(figures[n]).middle})
	}
	return middle
}

func (r *results) largest() (apps int) {
	for _, turns := range r.Turns {
		for _, t := range turns {
			apps = max(apps, t.Apps)
		}
	}
	return apps
}
