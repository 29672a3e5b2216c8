package faults

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"
)

// run is one life of a scenario, with at most one fault. Its methods are called in its
// bubble, unless they say otherwise.
type run struct {
	bridge   *bridge
	scenario *scenario
	plan     plan
	scope    string
	history  *history
	sql      *sqlServer
	clock    *shiftedClock
	activity chan struct{}

	processes []*process
	newest    atomic.Pointer[process] // the one that was started last
	started   int
	injector  injector
	outcome   outcome

	mu        sync.Mutex
	armed     bool           // the part of the scenario has begun that is recorded, and in which faults happen
	dozing    bool           // what only looks is not recorded
	turn      int            // how often somebody else than the operator has done something
	seen      map[string]int // how often there was a request or event of a name
	lastWrite int            // the number of writes so far
	lastAct   time.Time      // when somebody last wrote something
	journal   strings.Builder
}

// live is the run from begin to end. now is the time in the bubble's world.
func (r *run) live(now time.Time) {
	r.activity = make(chan struct{}, 1)
	<-time.After(time.Until(now)) // bubbles begin in the year 2000
	u := &user{r}
	defer r.endAll()
	u.moveIn()
	if _, err := r.start(newestVersion); err != nil {
		r.violate("starting: %v", err)
		return
	}
	r.settle()
	for _, step := range r.scenario.setUp {
		step(u)
		r.settle()
	}
	r.arm(true)
	for i, step := range r.scenario.steps {
		if r.injector.last = i == len(r.scenario.steps)-1; r.injector.last {
			r.lastStep()
		}
		r.injector.patient = r.scenario.early > 0
		r.afterLook()
		step(u)
		r.settle()
		r.atRest(i)
	}
	r.arm(false)
	for _, step := range r.scenario.after {
		step(u)
		r.settle()
	}
	r.rest(u)
}

func (r *run) endAll() {
	for _, p := range r.processes {
		p.end()
	}
	r.processes = nil
}

// settle returns when the operator and nature have done all that they will.
func (r *run) settle() {
	for range tooLong {
		r.drain()
		if nature(r) || r.await(lull) || r.asleep(r.quiet()) || r.injector.thaws(r) {
			continue
		}
		return
	}
	r.violate("it does not come to rest")
}

// drain delivers events, one at a time, until there are no more and nothing is under way.
func (r *run) drain() {
	for range tooLong {
		synctest.Wait()
		if r.bury() || r.deliver() || r.injector.releases(r) {
			continue
		}
		return
	}
	r.violate("there is no end of events")
}

// bury removes processes that have died, and starts another if none is left.
func (r *run) bury() bool {
	var living []*process
	for _, p := range r.processes {
		if p.isDead() {
			p.end()
			continue
		}
		living = append(living, p)
	}
	died := len(living) < len(r.processes)
	r.processes = living
	if died && len(living) == 0 {
		if _, err := r.start(r.injector.viewOf()); err != nil {
			r.violate("starting: %v", err)
		}
		r.log("--", nil, "another process has started", nil, nil)
	}
	return died
}

// deliver delivers the oldest event that some process waits for.
func (r *run) deliver() bool {
	var oldest event
	var to *stream
	for _, p := range r.processes {
		if p.deaf.Load() {
			continue
		}
		for _, s := range p.watches() {
			if e, ok := s.pending(); ok && (to == nil || e.version < oldest.version) {
				oldest, to = e, s
			}
		}
	}
	if to == nil {
		return false
	}
	id := r.number(fmt.Sprintf("event-%s-%s-%s", strings.ToLower(string(oldest.kind)), resources[to.resource].Resource, r.plain(oldest.Name)), to.process, false)
	r.log("ev", nil, id, nil, nil)
	r.injector.deliver(r, to, oldest, id)
	return true
}

// number tells a request or event from others of its name. It is empty as long as
// nothing is recorded, and for a process that is not the first: what it does is not in
// the record of the reference.
func (r *run) number(name string, p *process, looks bool) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.number != 1 || !r.recording(looks) {
		return ""
	}
	r.seen[name]++
	if n := r.seen[name]; n > 1 {
		name += "." + strconv.Itoa(n)
	}
	list := &r.outcome.record.requests
	if strings.HasPrefix(name, "event-") {
		list = &r.outcome.record.events
	}
	*list = append(*list, name)
	return name
}

// records tells whether a request is one that faults happen to.
func (r *run) records(looks bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.recording(looks)
}

// recording is records, of who holds the lock. An At is started while nobody looks.
func (r *run) recording(looks bool) bool {
	return r.armed && (!r.dozing || !looks && r.scenario.isAt())
}

func (r *run) arm(armed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.armed = armed
}

// someoneActs begins a turn: what the operator does from now on is an answer to it.
func (r *run) someoneActs() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn++
	r.lastAct = time.Now()
}

// lastStep notes how much of the record comes before the last step.
func (r *run) lastStep() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outcome.record.untilLast = len(r.outcome.record.requests)
}

func (r *run) writes() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lastWrite
}

func (r *run) asked() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.outcome.asked
}

// plain is a name without what differs from run to run.
func (r *run) plain(name string) string { return strings.ReplaceAll(name, r.scope, "ns") }

// versionAt is the version of a list.
func (r *run) versionAt(limit uint64) string {
	return strconv.FormatUint(r.history.version(limit), 10)
}

// violate notes what must not be. It may be called outside of the bubble.
func (r *run) violate(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outcome.violations = append(r.outcome.violations, fmt.Sprintf(format, args...))
}

// log keeps what happened, for whoever looks at a plan that failed.
func (r *run) log(mark string, s *sink, message string, err error, values []any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(&r.journal, "%s %s %s", time.Now().Format("15:04:05.000"), mark, message)
	if s != nil {
		fmt.Fprintf(&r.journal, " [%d %s %s %s]", s.process.number, s.value("controller"), s.value("object"), s.value("reconcileID"))
	}
	if err != nil {
		fmt.Fprintf(&r.journal, " err=%q", err)
	}
	for i := 0; i+1 < len(values); i += 2 {
		if values[i] != "stack" && values[i] != "duration" {
			fmt.Fprintf(&r.journal, " %v=%v", values[i], values[i+1])
		}
	}
	r.journal.WriteByte('\n')
}
