package faults

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// campaign runs plans, several at once.
type campaign struct {
	// renewed returns a harness on servers that hold nothing yet.
	renewed   func() *harness
	harness   *harness
	scenarios map[string]*scenario
	parallel  int
	// untilFailure ends the campaign at the first failure.
	untilFailure bool
	// chosen tells whether to run a plan.
	chosen func(plan) bool
	// failed is told at once what a plan came to that failed.
	failed func(plan, string)
	// progress is told how far it has come, now and then.
	progress func(string)

	mu         sync.Mutex
	changed    *sync.Cond // something waits, or has ended
	references map[string]reference
	waiting    []plan
	running    int
	left       int // how many plans the harness still takes
	results    table
	begun      time.Time
	told       time.Time
}

// allScenarios are those of all kinds.
func allScenarios() []scenario {
	var all []scenario
	for _, of := range []func() []scenario{atScenarios, appScenarios, databaseScenarios, externalDatabaseScenarios, platformScenarios} {
		all = append(all, of()...)
	}
	return all
}

// batch is how many plans run on one API server. What they leave fills its memory, and in
// the end the space that etcd has.
const batch = 2000

func newCampaign(renewed func() *harness, scenarios []scenario, parallel int) *campaign {
	c := &campaign{
		renewed: renewed, harness: renewed(), left: batch, scenarios: map[string]*scenario{}, parallel: parallel, references: map[string]reference{}, results: table{},
		chosen: func(plan) bool { return true }, progress: func(string) {}, failed: func(plan, string) {},
	}
	c.changed = sync.NewCond(&c.mu)
	for i := range scenarios {
		c.scenarios[scenarios[i].name] = &scenarios[i]
	}
	return c
}

// oneOf chooses one of so many plans by a seed.
func oneOf(share, seed uint64) func(plan) bool {
	return func(p plan) bool {
		p.again = 0 // a second death goes with the first
		sum := fnv.New64a()
		fmt.Fprintf(sum, "%d %s", seed, p)
		return sum.Sum64()%share == 0
	}
}

// learn runs each scenario twice without a fault, and derives the plans.
func (c *campaign) learn(t *testing.T) {
	t.Helper()
	var work []func()
	for name, s := range c.scenarios {
		work = append(work, func() {
			t.Run(name, func(t *testing.T) {
				first, _ := c.harness.do(t, s, plan{})
				second, journal := c.harness.do(t, s, plan{})
				ref, problems := newReference(first, second)
				problems = append(problems, c.asIfFresh(t, s, ref)...)
				if s.check != nil {
					problems = append(problems, s.check(ref.outcome)...)
				}
				if len(problems) > 0 {
					t.Errorf("without a fault:\n%s\n%s", strings.Join(problems, "\n"), journal)
				}
				c.mu.Lock()
				defer c.mu.Unlock()
				c.references[name] = ref
				plans := derive(s, ref.record)
				t.Logf("%d plans", len(plans))
				if s.drifts != "" {
					c.progress(fmt.Sprintf("%s: the API server refuses or undoes %d of the users' changes, and takes %d", name, ref.record.refused, len(plans)))
				}
				for _, p := range plans {
					if !s.calm && c.chosen(p) {
						c.waiting = append(c.waiting, p)
					}
				}
			})
		})
	}
	c.atOnce(work)
}

// asIfFresh compares what a scenario comes to with what is made so at once.
func (c *campaign) asIfFresh(t *testing.T, s *scenario, ref reference) []string {
	t.Helper()
	if len(s.fresh) == 0 {
		return nil
	}
	o, _ := c.harness.do(t, &scenario{name: s.name, sql: s.sql, steps: s.fresh}, plan{})
	if len(o.violations) > 0 {
		return o.violations
	}
	made, changed := ref.unmasked(o.final), maps.Clone(ref.final)
	for _, final := range []map[string]any{made, changed} { // extensions stay
		maps.DeleteFunc(final, func(name string, _ any) bool { return strings.HasPrefix(name, "sql/extension/") })
	}
	if diff := cmp.Diff(made, changed); diff != "" {
		return []string{"what is changed is not as if it were made so (-made +changed):\n" + diff}
	}
	return nil
}

// atOnce does work, some of it at once.
func (c *campaign) atOnce(work []func()) {
	var group sync.WaitGroup
	queue := make(chan func())
	for range c.parallel {
		group.Go(func() {
			for f := range queue {
				f()
			}
		})
	}
	for _, f := range work {
		queue <- f
	}
	close(queue)
	group.Wait()
}

// run runs all plans that wait, and those that come of them.
func (c *campaign) run(t *testing.T) {
	t.Helper()
	c.begun = time.Now()
	rand.Shuffle(len(c.waiting), func(i, j int) { c.waiting[i], c.waiting[j] = c.waiting[j], c.waiting[i] })
	for c.runBatch(t); len(c.waiting) > 0; c.runBatch(t) {
		c.harness, c.left = c.renewed(), batch
	}
}

// runBatch runs as many plans as the harness takes.
func (c *campaign) runBatch(t *testing.T) {
	t.Helper()
	var group sync.WaitGroup
	for range c.parallel {
		group.Go(func() {
			for p, ok := c.next(); ok; p, ok = c.next() {
				t.Run(p.String(), func(t *testing.T) { c.try(t, p) })
				c.done()
			}
		})
	}
	group.Wait()
}

// try runs a plan, and fails the test if it comes to anything else than the reference.
func (c *campaign) try(t *testing.T, p plan) {
	t.Helper()
	ref, ok := c.references[p.scenario], false
	defer func() { c.note(p, ok) }()
	o, journal := c.harness.do(t, c.scenarios[p.scenario], p)
	problems := ref.compare(o, p)
	if !o.fired {
		problems = append(problems, "the point of the plan was not reached")
	}
	if len(problems) > 0 {
		text := fmt.Sprintf("%s\nRepeat it by: make faults PLAN=%s\n%s", strings.Join(problems, "\n"), p, journal)
		c.failed(p, text)
		t.Error(text)
	}
	ok = len(problems) == 0
	c.mu.Lock()
	defer c.mu.Unlock()
	if !p.diesOnce() || c.scenarios[p.scenario].few {
		return
	}
	if s := c.scenarios[p.scenario]; s.looks() {
		o.recovery = min(o.recovery, manySecondDeaths)
	}
	for _, second := range p.secondDeaths(o.recovery) {
		if c.chosen(second) {
			c.waiting = append(c.waiting, second)
		}
	}
}

func (c *campaign) note(p plan, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.results.note(p, ok)
}

// manySecondDeaths is at how many requests of a recovery the process dies again where a
// plan takes seconds, since each connection to a PostgreSQL server is a process there, and
// where much of it is looking again and again.
const manySecondDeaths = 5

// next is the next plan, once there is one; false when there will be none any more.
func (c *campaign) next() (plan, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.waiting) == 0 && c.running > 0 && c.left > 0 {
		c.changed.Wait()
	}
	if _, failures := c.results.totals(); failures > 0 && c.untilFailure {
		c.waiting = nil
	}
	n := len(c.waiting)
	if n == 0 || c.left == 0 {
		return plan{}, false
	}
	c.left--
	p := c.waiting[n-1]
	c.waiting = c.waiting[:n-1]
	c.running++
	return p, true
}

// interval is how often progress is told.
const interval = 10 * time.Second

func (c *campaign) done() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
	c.changed.Broadcast()
	if time.Since(c.told) < interval {
		return
	}
	c.told = time.Now()
	plans, failures := c.results.totals()
	left := time.Since(c.begun) / time.Duration(max(plans, 1)) * time.Duration(len(c.waiting)+c.running)
	c.progress(fmt.Sprintf("%d of %d plans, %d failures, about %v left", plans, plans+len(c.waiting)+c.running, failures, left.Round(time.Second)))
}
