package controller

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// starvation is the maximum number of urgent keys that workers take in a row while a background key waits.
const starvation = 10

// lanes decides the order of a Queue: urgent keys come first, and in each lane namespaces take turns. The workqueue
// holds its own lock when it calls Push, Pop, Touch and Len. markUrgent and done are called without that lock, so lanes
// has another lock.
//
// A worker may take a key between markUrgent and the Add that follows. Add then queues the key in the background lane,
// and the key is reconciled once more than necessary. No change is delayed: the change was in the cache before
// markUrgent, so the worker has read the change.
type lanes struct {
	mu     sync.Mutex
	byLane [2]*fairQueue[Key] // the queued keys
	queued map[Key]entry
	// marked are the keys that were added as urgent and that no worker has taken yet.
	marked map[Key]struct{}
	// workers is the number of workers of each tenant.
	workers map[tenant]int
	streak  int // urgent keys taken since the last background key
	clock   clock.PassiveClock
	// observe is called when a worker takes a key, with the lane of the key and the time that the key has waited.
	observe func(Lane, time.Duration)
}

// entry is a queued key.
type entry struct {
	place
	lane  Lane
	since time.Time // when the key was queued
}

func newLanes(clk clock.PassiveClock, observe func(Lane, time.Duration)) *lanes {
	return &lanes{
		byLane:  [2]*fairQueue[Key]{newFairQueue[Key](), newFairQueue[Key]()},
		queued:  map[Key]entry{},
		marked:  map[Key]struct{}{},
		workers: map[tenant]int{},
		clock:   clk,
		observe: observe,
	}
}

func (l *lanes) markUrgent(key Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.marked[key] = struct{}{}
}

// Push adds a key that is not queued yet.
func (l *lanes) Push(key Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lane := Background
	if _, urgent := l.marked[key]; urgent {
		lane = Urgent
	}
	l.queued[key] = entry{l.byLane[lane].add(tenantOf(key), key), lane, l.clock.Now()}
}

// Touch moves a queued key to the urgent lane if the key has become urgent. The workqueue calls Touch when a queued key
// is added again.
func (l *lanes) Touch(key Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, urgent := l.marked[key]
	e, waits := l.queued[key]
	if !urgent || !waits || e.lane == Urgent {
		return
	}
	l.byLane[e.lane].remove(e.place)
	l.queued[key] = entry{l.byLane[Urgent].add(tenantOf(key), key), Urgent, e.since}
}

// Len returns the number of queued keys.
func (l *lanes) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queued)
}

// Pop removes and returns the next key. Among the tenants with keys in the lane, Pop chooses a tenant with the fewest
// workers. A tenant whose reconciles are slow therefore gets all workers only while no other tenant has a key in the
// lane. Pop must not be called when Len is 0.
func (l *lanes) Pop() Key {
	l.mu.Lock()
	defer l.mu.Unlock()
	lane := l.next()
	key := l.byLane[lane].take(func(t tenant) int { return l.workers[t] })
	l.observe(lane, l.clock.Since(l.queued[key].since))
	delete(l.queued, key)
	delete(l.marked, key)
	l.workers[tenantOf(key)]++
	return key
}

// done records that the worker that took a key is free again.
func (l *lanes) done(key Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := tenantOf(key)
	if l.workers[t]--; l.workers[t] <= 0 {
		delete(l.workers, t)
	}
}

// next returns the lane of the next key.
func (l *lanes) next() Lane {
	starving := !l.byLane[Background].empty() && l.streak >= starvation
	if l.byLane[Urgent].empty() || starving {
		l.streak = 0
		return Background
	}
	l.streak++
	return Urgent
}
