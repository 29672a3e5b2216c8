package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"time"
)

// results holds all measurements. It is the content of results.json.
type results struct {
	Machine string
	// Begun maps each measurement to the start of the run of the benchmark that took it.
	Begun map[string]time.Time
	// Stolen maps each measurement to the share of the CPU time that other machines on the same hardware
	// took during the measurement.
	Stolen   map[string]float64
	Turns    map[string][]turn
	Sizes    map[string][]size
	Restarts map[string][]restart
	Burdens  map[string]burden
	Tape     []string
	// Crowds are the results of Windlass, and CrowdFloors the results of the floor for the same numbers of Ats.
	Crowds, CrowdFloors []crowd
	Lateness            []lateness
	// Sharings has the results of replicas that share the Apps, and of a single replica.
	Sharings []sharing
	// Ready has the times until Apps are Ready.
	Ready map[string][]readiness
	// Waits maps each engine to the number of reconciles that begin before the reconcile of a changed object, while
	// periodic checks wait.
	Waits map[string]int
}

func newResults() *results {
	return &results{
		Machine: machine(), Begun: map[string]time.Time{}, Stolen: map[string]float64{}, Turns: map[string][]turn{},
		Sizes: map[string][]size{}, Restarts: map[string][]restart{}, Burdens: map[string]burden{},
	}
}

// machine returns the number and the model of the CPUs.
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

// runs returns the number of runs of the benchmark that took the measurements.
func (r *results) runs() int {
	return len(slices.CompactFunc(slices.SortedFunc(maps.Values(r.Begun), time.Time.Compare), time.Time.Equal))
}

// mostStolen returns the largest stolen share of the CPU time during a measurement, in percent.
func (r *results) mostStolen() float64 {
	most := 0.0
	for _, part := range r.Stolen {
		most = max(most, 100*part)
	}
	return most
}

// write writes the results to a file.
func (r *results) write(file string) error { return writeJSON(file, r) }

func writeJSON(file string, of any) error {
	text, err := json.MarshalIndent(of, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

// readResults reads the results of earlier runs. If there are none, the results are empty.
func readResults(file string) (*results, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return newResults(), nil
	}
	if err != nil {
		return nil, err
	}
	r := newResults()
	return r, json.Unmarshal(text, r)
}

// spread is the median of some figures, with the minimum and the maximum.
type spread struct{ least, middle, greatest float64 }

func spreadOf(figures []float64) spread {
	if len(figures) == 0 {
		return spread{math.NaN(), math.NaN(), math.NaN()}
	}
	sorted := slices.Sorted(slices.Values(figures))
	n := len(sorted)
	return spread{sorted[0], (sorted[(n-1)/2] + sorted[n/2]) / 2, sorted[n-1]}
}

// format formats a spread. digits is the number of digits after the decimal point.
func (s spread) format(digits int) string {
	text := fmt.Sprintf("%.*f", digits, s.middle)
	if s.least != s.greatest {
		text += fmt.Sprintf(" (%.*f–%.*f)", digits, s.least, digits, s.greatest)
	}
	return text
}

// point is a cost y for a number of objects x.
type point struct{ x, y float64 }

// slope returns the slope of the straight line through the points, by least squares.
func slope(points []point) float64 {
	var n, sx, sy, sxx, sxy float64
	for _, p := range points {
		n, sx, sy, sxx, sxy = n+1, sx+p.x, sy+p.y, sxx+p.x*p.x, sxy+p.x*p.y
	}
	return (n*sxy - sx*sy) / (n*sxx - sx*sx)
}

// growth returns the exponent with which a cost grows with the number of objects. If it is 1, the cost is
// proportional to the number.
func growth(points []point) float64 {
	var logs []point
	for _, p := range points {
		if p.x > 0 && p.y > 0 {
			logs = append(logs, point{math.Log(p.x), math.Log(p.y)})
		}
	}
	return slope(logs)
}

// figures returns one figure for each turn of a contestant with the given number of Apps.
func (r *results) figures(name string, apps int, of func(turn) float64) (all []float64) {
	for _, t := range r.Turns[name] {
		if t.Apps == apps {
			all = append(all, of(t))
		}
	}
	return all
}

// ratios returns the figures of a contestant divided by the figures of another one, turn by turn.
func (r *results) ratios(name, by string, apps int, of func(turn) float64) (all []float64) {
	a, b := r.figures(name, apps, of), r.figures(by, apps, of)
	for i := range min(len(a), len(b)) {
		all = append(all, a[i]/b[i])
	}
	return all
}

// measured is a measurement with a number of objects.
type measured interface{ objects() int }

func (t turn) objects() int    { return t.Apps }
func (s size) objects() int    { return s.Apps }
func (r restart) objects() int { return r.Apps }
func (c crowd) objects() int   { return c.Ats }

// points returns the median figure for each number of objects.
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
