package main

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSlope(t *testing.T) {
	if got := slope([]point{{1, 5}, {2, 7}, {4, 11}}); math.Abs(got-2) > 1e-9 {
		t.Errorf("slope is %v, want 2", got)
	}
}

func TestGrowth(t *testing.T) {
	for want, of := range map[float64]func(float64) float64{
		1: func(x float64) float64 { return 3 * x },
		2: func(x float64) float64 { return 3 * x * x },
		0: func(float64) float64 { return 3 },
	} {
		var points []point
		for _, x := range []float64{0, 10, 20, 40, 80} { // growth ignores 0
			points = append(points, point{x, of(x)})
		}
		if got := growth(points); math.Abs(got-want) > 1e-9 {
			t.Errorf("growth is %v, want %v", got, want)
		}
	}
}

func TestSpreadHasMedianAndBounds(t *testing.T) {
	for want, figures := range map[string][]float64{
		"2.0":           {2},
		"2.5 (1.0–4.0)": {4, 1, 2, 3},
		"3.0 (1.0–9.0)": {9, 1, 3},
		"NaN (NaN–NaN)": nil,
	} {
		if got := spreadOf(figures).format(1); got != want {
			t.Errorf("spread of %v is %q, want %q", figures, got, want)
		}
	}
}

func TestRunsCountsDistinctRuns(t *testing.T) {
	r, now, file := newResults(), time.Now(), filepath.Join(t.TempDir(), "results.json")
	r.Begun["made"], r.Begun["at"] = now.Add(-time.Hour), now.Add(-time.Hour)
	if err := r.write(file); err != nil {
		t.Fatal(err)
	}
	r, err := readResults(file)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.runs(); got != 1 {
		t.Errorf("after one run, runs is %d", got)
	}
	r.Begun["at"] = now
	if got := r.runs(); got != 2 {
		t.Errorf("after two runs, runs is %d", got)
	}
}

func TestFiguresSelectTurnsByNumberOfApps(t *testing.T) {
	r := newResults()
	r.Turns["a"] = []turn{{Apps: 1, Took: time.Second}, {Apps: 2, Took: 4 * time.Second}, {Apps: 2, Took: 6 * time.Second}}
	r.Turns["b"] = []turn{{Apps: 2, Took: 2 * time.Second}, {Apps: 2, Took: 2 * time.Second}}
	if got := r.figures("a", 2, took); !slices.Equal(got, []float64{4, 6}) {
		t.Errorf("figures are %v", got)
	}
	if got := r.ratios("a", "b", 2, took); !slices.Equal(got, []float64{2, 3}) {
		t.Errorf("ratios are %v", got)
	}
	if diff := cmp.Diff([]point{{1, 1}, {2, 5}}, points(took, r.Turns["a"]), cmp.AllowUnexported(point{})); diff != "" {
		t.Errorf("points (-want +got):\n%s", diff)
	}
	if r.largest() != 2 {
		t.Errorf("largest is %d, want 2", r.largest())
	}
}

func TestNumbersParsesIncreasingNumbers(t *testing.T) {
	if got, err := numbers("100,1000"); err != nil || !slices.Equal(got, []int{100, 1000}) {
		t.Errorf("numbers are %v (%v)", got, err)
	}
	for _, wrong := range []string{"", "0", "a", "100,10", "1,,2"} {
		if _, err := numbers(wrong); err == nil {
			t.Errorf("numbers accepts %q", wrong)
		}
	}
}

func TestEarlierReconcilesAreCounted(t *testing.T) {
	for who, log := range map[string]string{
		"Windlass": `I1122 10:15:01.000500 7 controller.go:145] "Reconcile ended" object="bench-00/app-00001" duration="400µs"
I1122 10:15:01.000700 7 controller.go:145] "Reconcile ended" object="bench-00/app-00002" duration="100µs"
I1122 10:15:01.009000 7 controller.go:145] "Reconcile ended" object="bench-00/app-00500" duration="8.5ms"
I1122 10:15:02.000000 7 controller.go:145] "Reconcile ended" object="bench-00/app-00500" duration="1ms"
`,
		"a peer": `{"level":"info","ts":"2026-11-22T10:15:15Z","msg":"Starting Controller"}
{"level":"debug","ts":"2026-11-22T10:15:15.000001Z","msg":"Reconcile begins","name":"app-00001"}
{"level":"debug","ts":"2026-11-22T10:15:15.000002Z","msg":"Reconcile begins","name":"app-00500"}
{"level":"debug","ts":"2026-11-22T10:15:15.000003Z","msg":"Reconcile begins","name":"app-00002"}
`,
	} {
		if n, err := passesBefore(log, "app-00500"); n != 1 || err != nil {
			t.Errorf("%s: counted %d reconciles, want 1 (%v)", who, n, err)
		}
		if _, err := passesBefore(log, "app-00600"); err == nil {
			t.Errorf("%s: no error for an App that is not in the log", who)
		}
	}
}

func TestChangeDoesNotWaitForPeriodicChecks(t *testing.T) {
	n, err := passesBeforeAChange(t.Context(), newWindlassQueue())
	if err != nil || n > workers {
		t.Errorf("%d reconciles begin between a change and its own reconcile (%v)", n, err)
	}
}

func TestStolenSinceReturnsShareOfTime(t *testing.T) {
	before := machineTime{all: 1000, stolen: 100}
	if got := (machineTime{all: 1400, stolen: 110}).stolenSince(before); got != 0.025 {
		t.Errorf("share is %v, want 0.025", got)
	}
	if got := before.stolenSince(before); got != 0 {
		t.Errorf("share of no time is %v, want 0", got)
	}
	if now, err := machineTimeNow(); err != nil || now.all <= now.stolen {
		t.Errorf("times of this machine are %v (%v)", now, err)
	}
}

func TestSizingProjectsFromTheSlopes(t *testing.T) {
	r := newResults()
	for _, apps := range []int{1000, 2000} {
		cost := float64(apps) * 5 * kibibyte
		r.Sizes[names[0]] = append(r.Sizes[names[0]], size{
			Apps: apps, Heap: cost, Steady: 2 * cost, Peak: 3*cost + 2*mebibyte, CPU: time.Duration(apps) * time.Millisecond,
		})
	}
	want := "| Apps | objects | live heap (MiB) | memory at rest (MiB) | peak of the memory (MiB) | CPU time of the " +
		"start (s) |\n|---|---|---|---|---|---|\n" +
		"| 1000 | 5000 | 5 | 10 | 17 | 1.0 |\n| 2000 | 10000 | 10 | 20 | 31 | 2.0 |\n| 100000, projected | 500000 | " +
		"488 | 977 | 1467 | 100.0 |\n"
	if diff := cmp.Diff(want, r.sizingTable()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

func TestSharingTableComparesWithinTurns(t *testing.T) {
	r := newResults()
	for turn, slow := range []time.Duration{1, 3, 2} { // the machine is slower in some turns
		for _, replicas := range []int{1, 2} {
			s := sharing{
				Apps: 100, Served: true, Turn: turn, Replicas: make([]sharer, replicas), Server: slow * time.Second,
				Requests: requests{"PATCH apps": 3},
			}
			for i := range s.Replicas {
				s.Replicas[i] = sharer{
					Heap: 4 * mebibyte / float64(replicas), Watched: mebibyte, CPU: slow * time.Second,
					RestRequests: 30, RestCPU: time.Second,
				}
			}
			r.Sharings = append(r.Sharings, s)
		}
	}
	want := []string{
		"| 100 | on | 1 | 4.0 MiB | 1.00 | 1.0 MiB | 1.00 | 2.0 s | 1.00 | 1.00 | 3 | 30 | 1.00 s |",
		"| 100 | on | 2, 12 shards | 2.0 MiB | 0.50 | 1.0 MiB | 1.00 | 4.0 s | 2.00 | 1.00 | 3 | 60 | 2.00 s |",
	}
	if diff := cmp.Diff(want, strings.Split(strings.TrimSpace(r.sharingTable()), "\n")[2:]); diff != "" {
		t.Error(diff)
	}
}
