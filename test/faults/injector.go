package faults

import (
	"net"
	"sync"
	"syscall"
	"time"
)

// injector injects the fault of a plan, once.
type injector struct {
	plan plan

	mu                  sync.Mutex
	lastStep            bool // the last step of the scenario has begun
	frozenUntilLastStep bool // a frozen watch stays frozen until the last step
	reached             bool
	over                bool // the fault is over: the recovery has begun
	recoveryRequests    int  // the number of requests of the second process
	diedAgain           bool // the second death has happened

	nextSnapshot uint64 // the version of the lists for the next process; 0 for the newest
	stream       *stream
	stage        stage
	resume       chan struct{} // closed to let the held request continue
	heldProcess  *process      // the process whose request is held, or the first of two leaders
}

// stage is the progress of a fault with several steps.
type stage int

const (
	noStage         stage = iota
	requestHeld           // a request is held, or a second process is about to start
	secondStarted         // a second process has started
	requestReleased       // the held request may continue, or two processes lead
)

// reaches reports whether id is the point of the plan. It returns true only once.
func (i *injector) reaches(id string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if id == "" || i.reached || id != i.plan.point {
		return false
	}
	i.reached = true
	switch i.plan.fault {
	case answerLate, leaseLost, twoLeaders, frozen, dropped, staleList, oldList:
	default:
		i.over = i.plan.secondDeath == 0
	}
	return true
}

func (i *injector) isOver() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.over
}

func (i *injector) end() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.over = true
}

// handle returns the response to a request. It injects the fault if the request is the point of the plan. It injects
// the second death if the plan selects this request of the recovery.
func (i *injector) handle(r *run, a *apiRequest, id string) response {
	if r.isRecording(!a.isWrite()) && i.isSecondDeath(a.process) {
		resp := r.send(a)
		a.process.die()
		return resp
	}
	if !i.reaches(id) {
		return r.send(a)
	}
	r.log("!!", nil, i.plan.String(), nil, nil)
	switch fault := i.plan.fault; fault {
	case diesBefore:
		a.process.die()
		return response{err: errDead}
	case diesAfter:
		resp := r.send(a)
		a.process.die()
		return resp
	case answerLost:
		r.send(a)
		return response{err: &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}}
	case answerLate:
		resp := r.send(a)
		i.holdRequest(a.process)
		return resp
	case leaseLost:
		a.process.suspended.Store(true)
		a.process.noEvents.Store(true)
		i.holdRequest(a.process)
		return r.send(a)
	case twoLeaders:
		i.expectSecondProcess(a.process)
		return r.send(a)
	case handedOver:
		a.process.leave()
		return r.send(a)
	case early:
		(&user{r}).deleteEarly()
		r.wake() // the run may be waiting: a timer may have started the reconcile
		return r.send(a)
	case podDeleted, podEvicted, podForced, nodeLost:
		losePod(fault)(&user{r})
		r.wake() // the run may be waiting: a timer may have started the reconcile
		return r.send(a)
	case "504":
		r.send(a)
		return rejection(fault)
	default:
		return rejection(fault)
	}
}

// isSecondDeath counts the requests of the second process. It reports whether p is the second process and must die
// after this request.
func (i *injector) isSecondDeath(p *process) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.plan.fault != diesAfter || p.number != 2 {
		return false
	}
	i.recoveryRequests++
	if i.recoveryRequests != i.plan.secondDeath {
		return false
	}
	i.diedAgain, i.over = true, true
	return true
}

func (i *injector) holdRequest(p *process) {
	i.mu.Lock()
	i.heldProcess, i.stage, i.resume = p, requestHeld, make(chan struct{})
	resume := i.resume
	i.mu.Unlock()
	p.run.wake() // the run may be waiting: a timer may have started the reconcile
	<-resume
}

func (i *injector) expectSecondProcess(p *process) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.heldProcess, i.stage = p, requestHeld
}

// overlap is the time for which two processes lead.
const overlap = 5 * time.Second

// advance takes the next step of a fault with several steps, and reports whether there was a step. The run calls
// advance when all events are delivered and nothing is in progress.
func (i *injector) advance(r *run) bool {
	i.mu.Lock()
	current, fault, first := i.stage, i.plan.fault, i.heldProcess
	i.mu.Unlock()
	switch {
	case current == requestHeld && fault == answerLate:
		i.setStage(requestReleased)
		close(i.resume)
		i.end()
	case current == requestHeld:
		if _, err := r.start(newestVersion); err != nil {
			r.addViolation("starting a process: %v", err)
		}
		i.setStage(secondStarted)
		if fault == twoLeaders {
			i.setStage(requestReleased)
			time.AfterFunc(overlap, func() { first.die(); i.end() })
		}
	case current == requestReleased && fault == leaseLost:
		i.setStage(noStage)
		first.die()
		i.end()
	default:
		return false
	}
	return true
}

func (i *injector) setStage(to stage) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.stage = to
}

// deliver delivers an event, and injects the fault if the event is the point of the plan.
func (i *injector) deliver(r *run, s *stream, e event, id string) {
	if !i.reaches(id) {
		s.markDelivered(e)
		s.send(e)
		return
	}
	r.log("!!", nil, i.plan.String(), nil, nil)
	switch i.plan.fault {
	case frozen:
		s.frozen, i.stream = true, s
	case dropped:
		s.markDelivered(e)
		i.stream = s
	case twice:
		s.markDelivered(e)
		s.send(e)
		s.send(e)
	case expired, tombstone:
		s.expire()
	case staleList:
		i.nextSnapshot = e.version - 1
		s.process.die()
	case oldList:
		i.nextSnapshot = e.version - 1
		s.markDelivered(e)
		s.send(e)
	}
}

// killForOldList ends the processes after the last step of a plan with the fault oldList, so that the next process gets
// an old list. It reports whether it ended the processes.
func (i *injector) killForOldList(r *run) bool {
	if !i.reached || !i.lastStep || i.isOver() || i.plan.fault != oldList {
		return false
	}
	r.beginInterval()
	for _, p := range r.processes {
		p.die()
	}
	return true
}

// takeSnapshot returns the version of the lists for the next process. Later processes get the newest version.
func (i *injector) takeSnapshot() uint64 {
	if i.nextSnapshot > 0 {
		snapshot := i.nextSnapshot
		i.nextSnapshot = 0
		return snapshot
	}
	return newestVersion
}

// endAtRest ends or continues a fault that waits until everything is at rest. It reports whether there was such a
// fault.
func (i *injector) endAtRest(r *run) bool {
	if !i.reached || i.isOver() {
		return false
	}
	switch i.plan.fault {
	case leaseLost:
		if i.stage != secondStarted {
			return false
		}
		r.beginInterval()
		i.setStage(requestReleased)
		i.heldProcess.suspended.Store(false)
		close(i.resume)
		return true
	case frozen:
		if i.frozenUntilLastStep && !i.lastStep {
			return false
		}
		i.end()
		i.stream.frozen = false
	case dropped:
		i.end()
		i.stream.expire()
	case staleList, oldList:
		if i.nextSnapshot > 0 {
			return false // no process has received the old list yet
		}
		i.end()
		for _, p := range r.processes {
			p.snapshot.Store(newestVersion)
		}
	default:
		return false
	}
	r.beginInterval()
	r.log("!!", nil, "the fault is over", nil, nil)
	return true
}
