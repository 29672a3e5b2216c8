package faults

import (
	"encoding/json"
	"net"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// injector has the fault of a plan happen, once.
type injector struct {
	plan plan

	mu       sync.Mutex
	last     bool // the last step of the scenario has begun
	patient  bool // what is frozen stays so until then
	fired    bool
	ended    bool // the fault is over: what follows is recovery
	recovery int  // requests of the second process
	again    bool // the second death has happened

	view   uint64 // the version of what the next process is served
	stream *stream
	stage  stage
	held   chan struct{} // closed when the held request goes on
	first  *process      // whose request is held, or who is not the only leader
}

// stage is how far a fault has come that takes more than a moment.
type stage int

const (
	idle     stage = iota
	holding        // a request waits
	beside         // another process has started
	released       // the request has gone on
)

// fires tells whether it is at the point of the plan, for the first time.
func (i *injector) fires(id string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if id == "" || i.fired || id != i.plan.point {
		return false
	}
	i.fired = true
	switch i.plan.fault {
	case answerLate, leaseLost, twoLeaders, frozen, dropped, staleList, oldList:
	default:
		i.ended = i.plan.again == 0
	}
	return true
}

// over tells whether the fault has ended.
func (i *injector) over() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.ended
}

func (i *injector) end() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ended = true
}

// request decides what becomes of a request.
func (i *injector) request(r *run, a *asked, id string) reply {
	if r.records(!a.writes()) && i.diesAgain(a.process) {
		answer := r.send(a)
		a.process.die()
		return answer
	}
	if !i.fires(id) {
		return r.send(a)
	}
	r.log("!!", nil, i.plan.String(), nil, nil)
	switch fault := i.plan.fault; fault {
	case diesBefore:
		a.process.die()
		return reply{err: errDead}
	case diesAfter:
		answer := r.send(a)
		a.process.die()
		return answer
	case answerLost:
		r.send(a)
		return reply{err: &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}}
	case answerLate:
		answer := r.send(a)
		i.hold(a.process)
		return answer
	case leaseLost:
		a.process.still.Store(true)
		a.process.deaf.Store(true)
		i.hold(a.process)
		return r.send(a)
	case twoLeaders:
		i.stand(a.process)
		return r.send(a)
	case early:
		(&user{r}).deleteEarly()
		r.wake() // as in hold
		return r.send(a)
	case "504":
		r.send(a)
		return refusal(fault)
	default:
		return refusal(fault)
	}
}

// diesAgain counts the requests of the process that recovers.
func (i *injector) diesAgain(p *process) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.plan.fault != diesAfter || p.number != 2 {
		return false
	}
	i.recovery++
	if i.recovery != i.plan.again {
		return false
	}
	i.again, i.ended = true, true
	return true
}

func (i *injector) hold(p *process) {
	i.mu.Lock()
	i.first, i.stage, i.held = p, holding, make(chan struct{})
	held := i.held
	i.mu.Unlock()
	p.run.wake() // the request may be of a pass that a timer began, while time passes
	<-held
}

func (i *injector) stand(p *process) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.first, i.stage = p, holding
}

// overlap is how long two processes take themselves for the leader.
const overlap = 5 * time.Second

// releases goes on with a fault that takes more than a moment, when all events are
// delivered and nothing is under way. It tells whether it has done anything.
func (i *injector) releases(r *run) bool {
	i.mu.Lock()
	at, fault, first := i.stage, i.plan.fault, i.first
	i.mu.Unlock()
	switch {
	case at == holding && fault == answerLate:
		i.step(released)
		close(i.held)
		i.end()
	case at == holding:
		if _, err := r.start(newestVersion); err != nil {
			r.violate("starting: %v", err)
		}
		i.step(beside)
		if fault == twoLeaders {
			i.step(released)
			time.AfterFunc(overlap, func() { first.die(); i.end() })
		}
	case at == released && fault == leaseLost:
		i.step(idle)
		first.die()
		i.end()
	default:
		return false
	}
	return true
}

func (i *injector) step(to stage) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.stage = to
}

// deliver decides what becomes of an event.
func (i *injector) deliver(r *run, s *stream, e event, id string) {
	if !i.fires(id) {
		s.skip(e)
		s.send(e)
		return
	}
	r.log("!!", nil, i.plan.String(), nil, nil)
	switch i.plan.fault {
	case frozen:
		s.frozen, i.stream = true, s
	case dropped:
		s.skip(e)
		i.stream = s
	case twice:
		s.skip(e)
		s.send(e)
		s.send(e)
	case expired, tombstone:
		s.expire()
	case staleList:
		i.view = e.version - 1
		s.process.die()
	case oldList:
		i.view = e.version - 1
		s.skip(e)
		s.send(e)
	}
}

// ages has the process die at the end of the scenario, so that the next is served an old
// list.
func (i *injector) ages(r *run) bool {
	if !i.fired || !i.last || i.over() || i.plan.fault != oldList {
		return false
	}
	r.someoneActs()
	for _, p := range r.processes {
		p.die()
	}
	return true
}

// viewOf is what the process sees that takes over.
func (i *injector) viewOf() uint64 {
	if i.view > 0 {
		view := i.view
		i.view = 0
		return view
	}
	return newestVersion
}

// thaws ends a fault that lasts until all is at rest.
func (i *injector) thaws(r *run) bool {
	if !i.fired || i.over() {
		return false
	}
	switch i.plan.fault {
	case leaseLost:
		if i.stage != beside {
			return false
		}
		r.someoneActs()
		i.step(released)
		i.first.still.Store(false)
		close(i.held)
		return true
	case frozen:
		if i.patient && !i.last {
			return false
		}
		i.end()
		i.stream.frozen = false
	case dropped:
		i.end()
		i.stream.expire()
	case staleList, oldList:
		if i.view > 0 {
			return false // nobody has been served it yet
		}
		i.end()
		for _, p := range r.processes {
			p.view.Store(newestVersion)
		}
	default:
		return false
	}
	r.someoneActs()
	r.log("!!", nil, "the fault is over", nil, nil)
	return true
}

// reasons of refusals, as the API server gives them.
var reasons = map[int]metav1.StatusReason{
	http.StatusForbidden: metav1.StatusReasonForbidden, http.StatusNotFound: metav1.StatusReasonNotFound,
	http.StatusConflict: metav1.StatusReasonConflict, http.StatusUnprocessableEntity: metav1.StatusReasonInvalid,
	http.StatusTooManyRequests: metav1.StatusReasonTooManyRequests, http.StatusInternalServerError: metav1.StatusReasonInternalError,
	http.StatusServiceUnavailable: metav1.StatusReasonServiceUnavailable, http.StatusGatewayTimeout: metav1.StatusReasonTimeout,
}

// refusal is the answer of an API server that does not do what it is asked for.
func refusal(fault string) reply {
	code, _ := strconv.Atoi(fault) // it is one of refusals
	body, _ := json.Marshal(statusOf(code, reasons[code]))
	header := http.Header{}
	if code == http.StatusTooManyRequests {
		header.Set("Retry-After", "1")
	}
	return reply{status: code, header: header, body: body}
}
