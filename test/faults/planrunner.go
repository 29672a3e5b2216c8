package faults

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// planRunner runs plans in parallel.
type planRunner struct {
	// startHarness stops the previous harness, and returns a harness on new, empty servers.
	startHarness func() *harness
	harness      *harness
	scenarios    map[string]*scenario
	parallel     int
	// stopAtFailure is set if no plan starts after the first failure.
	stopAtFailure bool
	// selects reports whether to run a plan.
	selects func(plan) bool
	// reportFailure is called for each plan that fails, with its problems and its log.
	reportFailure func(plan, string)
	// reportProgress is called with a line about the progress, from time to time.
	reportProgress func(string)

	mu         sync.Mutex
	changed    *sync.Cond // the queue or running has changed
	references map[string]reference
	queue      []plan
	running    int
	capacity   int // how many more plans the harness can run
	results    table
	started    time.Time
	lastReport time.Time
}

// allScenarios returns the scenarios of all kinds.
func allScenarios() []scenario {
	var all []scenario
	for _, scenariosOf := range []func() []scenario{
		atScenarios, shardedScenarios, appScenarios, databaseScenarios, externalDatabaseScenarios, platformScenarios,
	} {
		all = append(all, scenariosOf()...)
	}
	return all
}

// batchSize is the maximum number of plans that run on one API server. The objects of more plans would fill the memory
// and the storage of the server.
const batchSize = 2000

func newPlanRunner(startHarness func() *harness, scenarios []scenario, parallel int) *planRunner {
	r := &planRunner{
		startHarness: startHarness, harness: startHarness(), capacity: batchSize, scenarios: map[string]*scenario{},
		parallel: parallel, references: map[string]reference{}, results: table{},
		selects: func(plan) bool { return true }, reportProgress: func(string) {}, reportFailure: func(plan, string) {},
	}
	r.changed = sync.NewCond(&r.mu)
	for i := range scenarios {
		r.scenarios[scenarios[i].name] = &scenarios[i]
	}
	return r
}

// sample returns a function that selects one of share plans on average. Another seed selects other plans.
func sample(share, seed uint64) func(plan) bool {
	return func(p plan) bool {
		p.secondDeath = 0 // a second death is selected with the first
		sum := fnv.New64a()
		fmt.Fprintf(sum, "%d %s", seed, p)
		return sum.Sum64()%share == 0
	}
}

// runReferences runs each scenario twice without a fault, and derives the plans.
func (r *planRunner) runReferences(t *testing.T) {
	t.Helper()
	var work []func()
	for name, s := range r.scenarios {
		work = append(work, func() {
			t.Run(name, func(t *testing.T) {
				first, _ := r.harness.runScenario(t, s, plan{})
				second, log := r.harness.runScenario(t, s, plan{})
				ref, problems := newReference(first, second)
				problems = append(problems, r.compareFresh(t, s, ref)...)
				if s.check != nil {
					problems = append(problems, s.check(ref.outcome)...)
				}
				if len(problems) > 0 {
					t.Errorf("without a fault:\n%s\n%s", strings.Join(problems, "\n"), log)
				}
				r.mu.Lock()
				defer r.mu.Unlock()
				r.references[name] = ref
				plans := derivePlans(s, ref.points)
				t.Logf("%d plans", len(plans))
				if s.driftKind != "" {
					r.reportProgress(fmt.Sprintf("%s: the API server rejects or undoes %d changes of users, "+
						"and accepts %d", name, ref.points.rejectedDrifts, len(plans)))
				}
				for _, p := range plans {
					if !s.noFaults && r.selects(p) {
						r.queue = append(r.queue, p)
					}
				}
			})
		})
	}
	r.runParallel(work)
}

// compareFresh compares the final state of a scenario with the state that its freshSteps create. It returns the
// differences, or the violations in the run of the freshSteps.
func (r *planRunner) compareFresh(t *testing.T, s *scenario, ref reference) []string {
	t.Helper()
	if len(s.freshSteps) == 0 {
		return nil
	}
	o, _ := r.harness.runScenario(t, &scenario{name: s.name, sql: s.sql, steps: s.freshSteps}, plan{})
	if len(o.violations) > 0 {
		return o.violations
	}
	// The operator never removes extensions, a Platform keeps the results of the commands of a Removed component, and an
	// App keeps ConfigMaps with previous files.
	kept := cmpopts.IgnoreMapEntries(func(name string, value any) bool {
		previous := o.final[name] == nil && isImmutable(value)
		return strings.HasPrefix(name, "sql/extension/") || name == "runs" || previous
	})
	if diff := cmp.Diff(ref.applyMask(o.final), ref.final, kept); diff != "" {
		return []string{
			"a changed object differs from an object that was created with the new spec (-created +changed):\n" + diff,
		}
	}
	return nil
}

// runParallel calls functions, up to r.parallel at the same time.
func (r *planRunner) runParallel(work []func()) {
	var group sync.WaitGroup
	jobs := make(chan func())
	for range r.parallel {
		group.Go(func() {
			for f := range jobs {
				f()
			}
		})
	}
	for _, f := range work {
		jobs <- f
	}
	close(jobs)
	group.Wait()
}

// run runs all plans in the queue, and the plans with second deaths that follow from them.
func (r *planRunner) run(t *testing.T) {
	t.Helper()
	r.started = time.Now()
	rand.Shuffle(len(r.queue), func(i, j int) { r.queue[i], r.queue[j] = r.queue[j], r.queue[i] })
	for r.runBatch(t); len(r.queue) > 0; r.runBatch(t) {
		r.harness, r.capacity = r.startHarness(), batchSize
	}
}

// runBatch runs plans until the queue is empty or the harness has no capacity left.
func (r *planRunner) runBatch(t *testing.T) {
	t.Helper()
	var group sync.WaitGroup
	for range r.parallel {
		group.Go(func() {
			for p, ok := r.next(); ok; p, ok = r.next() {
				t.Run(p.String(), func(t *testing.T) { r.runPlan(t, p) })
				r.planDone()
			}
		})
	}
	group.Wait()
}

// runPlan runs a plan, and fails the test if the outcome differs from the reference.
func (r *planRunner) runPlan(t *testing.T, p plan) {
	t.Helper()
	ref, ok := r.references[p.scenario], false
	defer func() { r.addResult(p, ok) }()
	o, log := r.harness.runScenario(t, r.scenarios[p.scenario], p)
	problems := ref.compare(o, p)
	if !o.reachedPoint {
		problems = append(problems, "the point of the plan was not reached")
	}
	if len(problems) > 0 {
		text := fmt.Sprintf("%s\nTo run this plan again: make faults PLAN=%s\n%s", strings.Join(problems, "\n"), p, log)
		r.reportFailure(p, text)
		t.Error(text)
	}
	ok = len(problems) == 0
	r.mu.Lock()
	defer r.mu.Unlock()
	if !p.hasSecondDeaths() || r.scenarios[p.scenario].noSecondDeaths {
		return
	}
	if s := r.scenarios[p.scenario]; s.polls() {
		o.recoveryRequests = min(o.recoveryRequests, maxSecondDeaths)
	}
	for _, second := range p.secondDeaths(o.recoveryRequests) {
		if r.selects(second) {
			r.queue = append(r.queue, second)
		}
	}
}

func (r *planRunner) addResult(p plan, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.results.add(p, ok)
}

// maxSecondDeaths limits the number of plans with a second death that follow from one plan of a scenario that polls. In
// such a scenario, most requests of a recovery repeat the same read. A plan with a PostgreSQL server also takes
// seconds, because the server starts a process for each connection.
const maxSecondDeaths = 5

// next returns the next plan, and waits for a plan if necessary. It returns false if there are no more plans, or the
// harness has no capacity left.
func (r *planRunner) next() (plan, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.queue) == 0 && r.running > 0 && r.capacity > 0 {
		r.changed.Wait()
	}
	if _, failures := r.results.totals(); failures > 0 && r.stopAtFailure {
		r.queue = nil
	}
	n := len(r.queue)
	if n == 0 || r.capacity == 0 {
		return plan{}, false
	}
	r.capacity--
	p := r.queue[n-1]
	r.queue = r.queue[:n-1]
	r.running++
	return p, true
}

// progressInterval is the shortest time between two reports of progress.
const progressInterval = 10 * time.Second

func (r *planRunner) planDone() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running--
	r.changed.Broadcast()
	if time.Since(r.lastReport) < progressInterval {
		return
	}
	r.lastReport = time.Now()
	plans, failures := r.results.totals()
	remaining := time.Since(r.started) / time.Duration(max(plans, 1)) * time.Duration(len(r.queue)+r.running)
	r.reportProgress(fmt.Sprintf("%d of %d plans, %d failures, about %v left", plans, plans+len(r.queue)+r.running,
		failures, remaining.Round(time.Second)))
}
