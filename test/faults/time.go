package faults

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// shiftedClock is the bubble's clock, which somebody may set wrong.
type shiftedClock struct {
	clock.RealClock
	mu    sync.Mutex
	shift time.Duration
}

func (c *shiftedClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.shift)
}

func (c *shiftedClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

func (c *shiftedClock) set(shift time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shift = shift
}

const (
	// How long nothing is written before the operator is taken to be at rest: longer than
	// its longest backoff and than its periodic checks, which are more frequent where it
	// looks at what no event tells of.
	quiet, quietWithLooks = 12 * time.Minute, 6 * time.Minute
	// lull is after how long without a write what only looks is not recorded any more:
	// when periodic checks come is left to chance.
	lull = time.Minute
	// manyResyncs is how many periodic checks follow in the end of a reference, and of one
	// plan of ten; fewResyncs how many follow in the others, and where the operator
	// looks every few seconds.
	manyResyncs, fewResyncs = 20, 2
	// tooLong is how many events and writes there may be between two points of rest.
	tooLong = 2000
)

func (r *run) quiet() time.Duration {
	if r.scenario.looks() && !isForGood(r.plan.fault) {
		return quietWithLooks
	}
	return quiet
}

func (r *run) resyncs() int {
	if r.scenario.polls() || r.plan != (plan{}) && !oneOf(10, 0)(r.plan) {
		return fewResyncs
	}
	return manyResyncs
}

// asleep is await, without a record of what only looks.
func (r *run) asleep(limit time.Duration) bool {
	r.doze(true)
	defer r.doze(false)
	return r.await(limit)
}

// afterLook lets time pass until the operator has looked once more at what no event tells
// of, so that its next look is too far off to be taken for an answer to a step.
func (r *run) afterLook() {
	if !r.scenario.looks() {
		return
	}
	r.doze(true)
	defer r.doze(false)
	for before, begun := r.asked(), time.Now(); r.asked() == before && time.Since(begun) < quietWithLooks; {
		r.await(lull / 10)
		r.drain()
	}
}

func (r *run) doze(dozing bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dozing = dozing
}

// await lets time pass until something happens, and tells whether that was before limit.
func (r *run) await(limit time.Duration) bool {
	select {
	case <-r.activity:
		return true
	case <-time.After(limit):
		return false
	}
}

// wake ends await.
func (r *run) wake() {
	select {
	case r.activity <- struct{}{}:
	default:
	}
}
