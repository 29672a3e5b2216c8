package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// options holds the flags of the command, and the state of a run of the benchmark.
type options struct {
	turns      int
	made, rest []int // numbers of Apps to create, and at rest
	ats        []int
	shared     []int
	features   []bool // whether the API server of the replicas has ShardedListAndWatch
	idle       int
	out, docs  string
	controller string
	only       string

	begun   time.Time
	lab     *lab
	who     []contestant
	tape    *tape
	results *results
}

func parse(args []string) (*options, error) {
	o := &options{begun: time.Now()}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.IntVar(&o.turns, "turns", 3, "turns of each contestant; starts, and Ats that are due together, have them "+
		"only for the largest number of objects")
	flags.IntVar(&o.idle, "idle", 20000, "number of Ats that are not due while others are")
	ats := flags.String("ats", "1250,2500,5000,10000", "numbers of Ats that are due at one instant")
	made := flags.String("made", "500,1000,2000,5000", "numbers of Apps that are created in a turn")
	rest := flags.String("rest", "1000,2500,5000,20000", "numbers of Apps at rest")
	shared := flags.String("shared", "5000,20000", "numbers of Apps that replicas share")
	feature := flags.String("feature", "both", "measure replicas that share Apps with the feature "+
		"ShardedListAndWatch (on), without it (off), or both; the others are read from results.json")
	flags.StringVar(&o.out, "out", "bin/bench-output", "directory for results, logs and profiles")
	flags.StringVar(&o.docs, "docs", "docs", "directory of the page; if it is empty, no page is written")
	flags.StringVar(&o.controller, "controller", "bin/controller", "binary of the operator")
	flags.StringVar(&o.only, "only", "", "take only engine, made, at, late, foreign, rest, sharing, ready, profile "+
		"or nothing; the others are read from results.json")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	switch *feature {
	case "on", "off":
		o.features = []bool{*feature == "on"}
	case "both":
		o.features = []bool{false, true}
	default:
		return nil, fmt.Errorf("--feature must be on, off or both, not %q", *feature)
	}
	for text, into := range map[*string]*[]int{made: &o.made, rest: &o.rest, ats: &o.ats, shared: &o.shared} {
		var err error
		if *into, err = numbers(*text); err != nil {
			return nil, err
		}
	}
	return o, nil
}

func numbers(text string) (all []int, err error) {
	for field := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(field)
		if err != nil || n < 1 || len(all) > 0 && n <= all[len(all)-1] {
			return nil, fmt.Errorf("%q must be increasing numbers such as 100,1000", text)
		}
		all = append(all, n)
	}
	return all, nil
}

// bench takes the measurements that the arguments select, and writes the results.
func bench(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	o.results = newResults()
	if o.only != "" {
		if o.results, err = readResults(o.file()); err != nil {
			return err
		}
	}
	if o.only != "nothing" {
		if err := o.measure(ctx); err != nil {
			return err
		}
	}
	if o.docs == "" {
		return nil
	}
	return o.results.report(o.docs)
}

// file returns the path of the results.
func (o *options) file() string { return filepath.Join(o.out, "results.json") }

// measure takes the measurements, one after the other on one API server. It stores the results after each
// measurement, because the next one may fail.
func (o *options) measure(ctx context.Context) error {
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if o.lab, err = newLab(ctx, dir); err != nil {
		return err
	}
	defer o.lab.Close()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	o.who = contestants(o.controller, self)
	if o.tape, err = o.lab.record(ctx, appSubject, o.out, o.who[0]); err != nil {
		return err
	}
	for _, m := range []struct {
		name string
		take func(context.Context) error
	}{
		{"engine", o.measureEngine},
		{"made", o.measureMade},
		{"at", o.measureAts},
		{"late", o.measureLateness},
		{"foreign", o.measureForeign},
		{"rest", o.measureRest},
		{"sharing", o.measureSharing},
		{"ready", o.measureReady},
		{"profile", o.profile},
	} {
		if o.only != m.name && (o.only != "" || m.name == "profile") {
			continue
		}
		before, err := machineTimeNow()
		if err != nil {
			return err
		}
		if err := m.take(ctx); err != nil {
			return fmt.Errorf("taking the measurement %s: %w", m.name, err)
		}
		after, err := machineTimeNow()
		if err != nil {
			return err
		}
		if m.name != "profile" { // the page has no profiles
			o.results.Begun[m.name], o.results.Stolen[m.name] = o.begun, after.stolenSince(before)
		}
		if err := o.results.write(o.file()); err != nil {
			return err
		}
	}
	return nil
}

// tell prints a message with the time since the start.
func (o *options) tell(format string, args ...any) {
	fmt.Printf("%8s  %s\n", time.Since(o.begun).Round(time.Second), fmt.Sprintf(format, args...))
}

// turnsOf returns the number of turns for a size: o.turns for the largest size, and 1 for all others.
func (o *options) turnsOf(size int, sizes []int) int {
	if size == sizes[len(sizes)-1] {
		return o.turns
	}
	return 1
}

// measureMade measures how all contestants, in turns, create the children of waiting Apps.
func (o *options) measureMade(ctx context.Context) error {
	o.results.Tape = strings.Split(strings.TrimSpace(o.tape.String()), "\n")
	o.results.Turns = map[string][]turn{}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	file := filepath.Join(o.out, "tape.json")
	if err := o.tape.keep(file); err != nil {
		return err
	}
	floor := floorOf(self, file)
	if _, err := o.lab.see(ctx, appSubject, o.out, floor, o.made[0], o.lab.Kubeconfig()); err != nil {
		return err // a warm-up, which does not count: the API server has just started
	}
	all := append(slices.Clone(o.who), floor)
	for _, apps := range o.made {
		for n := range o.turns {
			for i := range all {
				c := all[(n+i)%len(all)] // another contestant begins each round
				t, err := o.lab.see(ctx, appSubject, o.out, c, apps, o.lab.Kubeconfig())
				if err != nil {
					return err
				}
				o.results.Turns[c.name] = append(o.results.Turns[c.name], t)
				o.tell("turn %d of %d, %d Apps, %s: %v, CPU time %v, CPU time of the API server %v", n+1, o.turns, apps,
					c.name, t.Took.Round(time.Millisecond), t.CPU, t.Server.Round(time.Millisecond))
			}
		}
	}
	return nil
}

// measureAts measures how Windlass and the floor, in turns, create the Pods of Ats that are due together.
func (o *options) measureAts(ctx context.Context) error {
	o.results.Crowds, o.results.CrowdFloors = nil, nil
	t, err := o.lab.record(ctx, atSubject, o.out, o.who[0])
	if err != nil {
		return err
	}
	for _, ats := range o.ats {
		turns := o.turnsOf(ats, o.ats)
		for turn := range turns {
			c, err := o.lab.dueTogether(ctx, o.out, o.who[0], ats, nil)
			if err != nil {
				return err
			}
			f, err := o.lab.dueTogether(ctx, o.out, o.who[0], ats, func(ctx context.Context, instant time.Time) error {
				return o.lab.play(ctx, t, 0, instant)
			})
			if err != nil {
				return err
			}
			o.results.Crowds, o.results.CrowdFloors = append(o.results.Crowds, c), append(o.results.CrowdFloors, f)
			o.tell("turn %d of %d, %d Ats due together: last Pod after %v, floor %v", turn+1, turns, ats,
				c.Last.Round(time.Millisecond), f.Last.Round(time.Millisecond))
		}
	}
	return o.lab.wipe(ctx)
}

// measureLateness measures the delays of the Pods of Ats that are due one after the other, without other Ats
// and with many Ats that are not due.
func (o *options) measureLateness(ctx context.Context) error {
	o.results.Lateness = nil
	for _, idle := range []int{0, o.idle} {
		l, err := o.lab.dueInTurn(ctx, o.out, o.who[0], idle)
		if err != nil {
			return err
		}
		o.results.Lateness = append(o.results.Lateness, l)
		o.tell("%d Ats are due, %d are not: median delay %v, 99th percentile %v", manyAts, idle, l.percentile(50),
			l.percentile(99))
	}
	return o.lab.wipe(ctx)
}

// measureRest measures contestants that start when Apps are at rest: without a change, and after one App was changed.
func (o *options) measureRest(ctx context.Context) error {
	o.results.Sizes, o.results.Restarts = map[string][]size{}, map[string][]restart{}
	if err := o.lab.wipe(ctx); err != nil {
		return err
	}
	there := 0
	for _, apps := range o.rest {
		if err := o.lab.populate(ctx, o.out, o.who[0], o.tape, there, apps); err != nil {
			return err
		}
		there = apps
		for _, c := range o.who {
			s, err := o.lab.atRest(ctx, o.out, c, apps, o.lab.Kubeconfig())
			if err != nil {
				return err
			}
			o.results.Sizes[c.name] = append(o.results.Sizes[c.name], s)
			o.tell("%d Apps at rest, %s: heap %.1f MiB, %d watches of one resource, %d writes", apps, c.name,
				s.Heap/(1<<20), s.Requests.most("WATCH"), s.Requests.changes())
		}
		if err := o.measureRestarts(ctx, apps); err != nil {
			return err
		}
	}
	return nil
}
