package faults

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"
)

// run is one run of a scenario, with at most one fault. A method must be called in the bubble of the run, unless its
// comment says otherwise.
type run struct {
	bridge    *bridge
	scenario  *scenario
	plan      plan
	namespace string
	history   *history
	sql       *sqlServer
	servers   *podServers
	clock     *shiftedClock
	activity  chan struct{}

	processes     []*process
	bystander     *process                // the process for the other shard, or nil
	newestProcess atomic.Pointer[process] // the process that was started last
	processCount  int
	injector      injector
	outcome       outcome

	mu              sync.Mutex
	recording       bool           // requests and events are recorded, and faults can happen
	recordingPaused bool           // while only periodic checks are expected
	interval        int            // counts external writes and ends of faults
	idCounts        map[string]int // the number of recorded requests or events with each name
	writeCount      int            // the number of writes so far
	end             time.Time      // the time at which the scenario ended
	lastWrite       time.Time      // the time of the last write, or of the start of the interval if later
	logBuffer       strings.Builder
}

// execute runs the scenario. now is the time outside of the bubble.
func (r *run) execute(now time.Time) {
	r.activity = make(chan struct{}, 1)
	<-time.After(time.Until(now)) // the clock of a bubble starts in the year 2000
	u := &user{r}
	defer r.stopAll()
	u.createNamespace()
	if err := r.startFirst(); err != nil {
		r.addViolation("starting a process: %v", err)
		return
	}
	r.awaitRest()
	for _, step := range r.scenario.setUp {
		step(u)
		r.awaitRest()
	}
	r.setRecording(true)
	for i, step := range r.scenario.steps {
		if r.injector.lastStep = i == len(r.scenario.steps)-1; r.injector.lastStep {
			r.markLastStep()
		}
		r.injector.frozenUntilLastStep = r.scenario.earlyDeletion > 0
		r.awaitPoll()
		step(u)
		r.awaitRest()
		r.handleRest(i)
	}
	r.setRecording(false)
	for _, step := range r.scenario.after {
		step(u)
		r.awaitRest()
	}
	r.checkRest(u)
	r.end = time.Now() // a fault may have shifted the clock of the operator
}

// all returns the processes that run.
func (r *run) all() []*process {
	if r.bystander == nil {
		return r.processes
	}
	return append(slices.Clone(r.processes), r.bystander)
}

func (r *run) stopAll() {
	for _, p := range r.all() {
		p.stop()
	}
	r.processes, r.bystander = nil, nil
}

// awaitRest returns when the operator and the simulator have nothing left to do. It also ends faults that last until
// everything is at rest.
func (r *run) awaitRest() {
	for range maxIterations {
		r.deliverEvents()
		if simulateStep(r) || r.await(recordingTimeout) || r.awaitUnrecorded(r.quietPeriod()) || r.injector.endAtRest(r) {
			continue
		}
		return
	}
	r.addViolation("the operator does not come to rest")
}

// deliverEvents delivers events, one at a time, until there are none left and nothing is in progress.
func (r *run) deliverEvents() {
	for range maxIterations {
		synctest.Wait()
		if r.replaceDead() || r.deliverNext() || r.injector.advance(r) {
			continue
		}
		return
	}
	r.addViolation("the delivery of events does not end")
}

// replaceDead removes processes that have died, and starts another process if none is left. It reports whether a
// process had died.
func (r *run) replaceDead() bool {
	var living []*process
	for _, p := range r.processes {
		if p.isDead() {
			p.stop()
			continue
		}
		living = append(living, p)
	}
	died := len(living) < len(r.processes)
	r.processes = living
	if died && len(living) == 0 {
		if _, err := r.start(r.injector.takeSnapshot()); err != nil {
			r.addViolation("starting a process: %v", err)
		}
		r.log("--", nil, "another process has started", nil, nil)
	}
	return died
}

// deliverNext delivers the oldest event that a process has not received. It reports whether there was one.
func (r *run) deliverNext() bool {
	var oldest event
	var to *stream
	for _, p := range r.all() {
		if p.noEvents.Load() {
			continue
		}
		for _, s := range p.openStreams() {
			if e, ok := s.nextEvent(); ok && (to == nil || e.version < oldest.version) {
				oldest, to = e, s
			}
		}
	}
	if to == nil {
		return false
	}
	id := r.recordID(fmt.Sprintf("event-%s-%s-%s", strings.ToLower(string(oldest.kind)),
		resources[to.resource].Resource, r.stableName(oldest.Name)), to.process, false)
	r.log("ev", nil, id, nil, nil)
	r.injector.deliver(r, to, oldest, id)
	return true
}

// recordID records a request or event, and returns its ID: the name, with a number from the second request or event of
// this name on. It returns "" while recording is off or paused. It also returns "" for all processes except the first,
// because the reference run has only one process. onlyReads is the parameter of isRecording.
func (r *run) recordID(name string, p *process, onlyReads bool) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.number != 1 || !r.isRecordingLocked(onlyReads) {
		return ""
	}
	r.idCounts[name]++
	if n := r.idCounts[name]; n > 1 {
		name += "." + strconv.Itoa(n)
	}
	list := &r.outcome.points.requests
	if strings.HasPrefix(name, "event-") {
		list = &r.outcome.points.events
	}
	*list = append(*list, name)
	return name
}

// isRecording reports whether requests or events are recorded now. Only recorded requests and events can have faults.
// onlyReads is set for a read or an SQL statement.
func (r *run) isRecording(onlyReads bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.isRecordingLocked(onlyReads)
}

// isRecordingLocked is like isRecording, but the caller must hold the lock. The writes and events of an At are also
// recorded while recording is paused, because the At waits for its schedule during a pause.
func (r *run) isRecordingLocked(onlyReads bool) bool {
	return r.recording && (!r.recordingPaused || !onlyReads && r.scenario.isAt())
}

func (r *run) setRecording(recording bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.recording = recording
}

// beginInterval begins an interval, in which the operator responds to an external write or to the end of a fault.
func (r *run) beginInterval() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.interval++
	r.lastWrite = time.Now()
}

// markLastStep records how many requests come before the last step.
func (r *run) markLastStep() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outcome.points.beforeLastStep = len(r.outcome.points.requests)
}

func (r *run) writes() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.writeCount
}

func (r *run) requests() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.outcome.requests
}

// stableName replaces the namespace of the run in a text with "ns", so that the text is the same in each run.
func (r *run) stableName(name string) string { return strings.ReplaceAll(name, r.namespace, "ns") }

// listVersion returns the resourceVersion of a list that shows the state at the version limit.
func (r *run) listVersion(limit uint64) string {
	return strconv.FormatUint(r.history.lastVersion(limit), 10)
}

// addViolation records a property that does not hold. It may be called outside of the bubble.
func (r *run) addViolation(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outcome.violations = append(r.outcome.violations, fmt.Sprintf(format, args...))
}

// log appends a line to the log of the run, which is shown if the plan fails. The mark says what the line is about:
// "ev" an event, "rq" a request, "sq" an SQL statement, "by" an external write, "!!" a fault, "--" a process, and
// "I" or "E" the log of the operator.
func (r *run) log(mark string, s *logSink, message string, err error, values []any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(&r.logBuffer, "%s %s %s", time.Now().Format("15:04:05.000"), mark, message)
	if s != nil {
		fmt.Fprintf(&r.logBuffer, " [%d %s %s %s]", s.process.number, s.value("controller"), s.value("object"),
			s.value("reconcileID"))
	}
	if err != nil {
		fmt.Fprintf(&r.logBuffer, " err=%q", err)
	}
	for i := 0; i+1 < len(values); i += 2 {
		if values[i] != "stack" && values[i] != "duration" {
			fmt.Fprintf(&r.logBuffer, " %v=%v", values[i], values[i+1])
		}
	}
	r.logBuffer.WriteByte('\n')
}
