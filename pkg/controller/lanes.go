package controller

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// starvation is how many urgent keys in a row workers take at most while a background key waits.
const starvation = 10

// lanes decides the order of a Queue: urgent keys first, and in each lane the namespaces in turn. The
// workqueue that has lanes as its queue calls Push, Pop, Touch and Len while it holds the lock of the
// workqueue. markUrgent and done are called without that lock, so lanes has a lock of its own.
//
// A worker may take a key between markUrgent and the Add that follows. The key is then added to the
// background lane and reconciled once more than needed. Nothing is delayed, because the change that
// made the key urgent was in the cache before markUrgent, and the worker read it.
type lanes struct {
	mu     sync.Mutex
	turns  [2]*turns[Key] // by Lane
	queued map[Key]entry
	// marked are the keys that were added as urgent and that no worker has taken yet.
	marked map[Key]struct{}
	// working is how many workers each tenant has.
	working map[tenant]int
	streak  int // urgent keys taken since the last background key
	clock   clock.PassiveClock
	// observe is called with the time that a key has waited, and the lane in which a worker has taken it.
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
		turns:   [2]*turns[Key]{newTurns[Key](), newTurns[Key]()},
		queued:  map[Key]entry{},
		marked:  map[Key]struct{}{},
		working: map[tenant]int{},
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
	l.queued[key] = entry{l.turns[lane].add(tenantOf(key), key), lane, l.clock.Now()}
}

// Touch is called when a queued key is added again. The key may have become urgent.
func (l *lanes) Touch(key Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, urgent := l.marked[key]
	e, waits := l.queued[key]
	if !urgent || !waits || e.lane == Urgent {
		return
	}
	l.turns[e.lane].remove(e.place)
	l.queued[key] = entry{l.turns[Urgent].add(tenantOf(key), key), Urgent, e.since}
}

// Len returns the number of queued keys.
func (l *lanes) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queued)
}

// Pop removes and returns the next key. Of the tenants with keys in the lane, a tenant with the fewest
// workers is next, so a tenant whose reconciles are slow gets all workers only while no other tenant has a
// key in that lane. Pop must not be called when Len is 0.
func (l *lanes) Pop() Key {
	l.mu.Lock()
	defer l.mu.Unlock()
	lane := l.next()
	key := l.turns[lane].take(func(t tenant) int { return l.working[t] })
	l.observe(lane, l.clock.Since(l.queued[key].since))
	delete(l.queued, key)
	delete(l.marked, key)
	l.working[tenantOf(key)]++
	return key
}

// done records that the worker that took a key is free again.
func (l *lanes) done(key Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := tenantOf(key)
	if l.working[t]--; l.working[t] <= 0 {
		delete(l.working, t)
	}
}

// next returns the lane of the next key.
func (l *lanes) next() Lane {
	starving := !l.turns[Background].empty() && l.streak >= starvation
	if l.turns[Urgent].empty() || starving {
		l.streak = 0
		return Background
	}
	l.streak++
	return Urgent
}
