package faults

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// shiftedClock is the clock of the bubble, with a shift that a fault sets.
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
	// quietPeriod is the time without writes after which the operator counts as at rest. It is longer than the longest
	// backoff and the time between resyncs. pollingQuietPeriod replaces quietPeriod in scenarios that poll, because their
	// periodic checks are more frequent.
	quietPeriod, pollingQuietPeriod = 12 * time.Minute, 6 * time.Minute
	// recordingTimeout is the time without activity after which recording is paused, because periodic checks send
	// requests at random times.
	recordingTimeout = time.Minute
	// manyResyncs is the number of quiet periods, each with a periodic check, at the end of a reference run and
	// of a tenth of the plans. fewResyncs is the number for the other plans, and for scenarios in which the
	// operator checks every few seconds.
	manyResyncs, fewResyncs = 20, 2
	// maxIterations limits the events and writes between two points of rest.
	maxIterations = 2000
)

func (r *run) quietPeriod() time.Duration {
	if r.scenario.polls() && !isPermanent(r.plan.fault) {
		return pollingQuietPeriod
	}
	return quietPeriod
}

func (r *run) resyncs() int {
	if r.scenario.nameIsTaken() || r.plan != (plan{}) && !sample(10, 0)(r.plan) {
		return fewResyncs
	}
	return manyResyncs
}

// awaitUnrecorded pauses recording, and waits like await.
func (r *run) awaitUnrecorded(limit time.Duration) bool {
	r.pauseRecording(true)
	defer r.pauseRecording(false)
	return r.await(limit)
}

// awaitPoll lets time pass until the operator has polled, so that the next poll is not mistaken for a response to
// a step.
func (r *run) awaitPoll() {
	if !r.scenario.polls() {
		return
	}
	r.pauseRecording(true)
	defer r.pauseRecording(false)
	for before, started := r.requests(), time.Now(); r.requests() == before && time.Since(started) < pollingQuietPeriod; {
		r.await(recordingTimeout / 10)
		r.deliverEvents()
	}
}

func (r *run) pauseRecording(paused bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.recordingPaused = paused
}

// await lets time pass until there is activity or the limit is reached, and reports whether there was activity.
func (r *run) await(limit time.Duration) bool {
	select {
	case <-r.activity:
		return true
	case <-time.After(limit):
		return false
	}
}

// wake reports activity, so that await returns.
func (r *run) wake() {
	select {
	case r.activity <- struct{}{}:
	default:
	}
}
