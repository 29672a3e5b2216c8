package controller

import (
	"sync"
	"time"
)

const (
	// writeBurst is how many reconciles that send a write one object may have without a delay. After that, the object may
	// have one more per writeInterval.
	//
	// Most objects need 3 such reconciles in all. A Platform with many components needs some for each component, and a
	// test that changes every field of every child of one object needs 150. An object that needs more is in a loop:
	// another client reverts the writes of the operator, or the operator reverts its own writes.
	writeBurst    = 250
	writeInterval = time.Second

	// sweepInterval is the shortest time between two sweeps of a budget. A sweep drops the keys whose budget is full
	// again.
	sweepInterval = time.Minute
)

// budget limits how often something happens for each of many keys: burst times at once, and then once per interval. It
// stores one time.Time for each key that has used its budget lately (the generic cell rate algorithm).
type budget[K comparable] struct {
	burst    int
	interval time.Duration

	mu     sync.Mutex
	fullAt map[K]time.Time // when the budget of a key is full again
	swept  time.Time
}

func newBudget[K comparable](burst int, interval time.Duration) *budget[K] {
	return &budget[K]{burst: burst, interval: interval, fullAt: map[K]time.Time{}}
}

// wait returns how long key has to wait until its budget allows the next use. The wait is at most one interval, and 0
// if the budget allows a use now.
func (b *budget[K]) wait(key K, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sweep(now)
	full, used := b.fullAt[key]
	if !used {
		return 0
	}
	// A use adds one interval to full, which may be at most burst intervals after now. So before the use, full may be at
	// most burst-1 intervals after now.
	left := max(0, full.Sub(now)-time.Duration(b.burst-1)*b.interval)
	if left > b.interval { // more than spend ever leaves: the clock was set back
		delete(b.fullAt, key)
		return 0
	}
	return left
}

// spend uses the budget of key once. It does nothing if the budget is used up.
func (b *budget[K]) spend(key K, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	full := b.fullAt[key]
	if full.Before(now) {
		full = now
	}
	b.fullAt[key] = full.Add(b.interval)
	if last := now.Add(time.Duration(b.burst) * b.interval); b.fullAt[key].After(last) {
		b.fullAt[key] = last
	}
}

// sweep drops the keys whose budget is full again. The caller holds the lock.
func (b *budget[K]) sweep(now time.Time) {
	if now.Sub(b.swept) < sweepInterval {
		return
	}
	b.swept = now
	for key, full := range b.fullAt {
		if !full.After(now) {
			delete(b.fullAt, key)
		}
	}
}
