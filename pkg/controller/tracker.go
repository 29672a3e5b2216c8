package controller

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Tracker remembers for each key of one controller:
//
//   - writes that the caches have not observed yet, so that a process reads its own writes (writes.go),
//   - objects that this process has deleted, which a cache may still have (tombstones.go),
//   - objects in which the API server keeps values other than the written values (rewrites.go),
//   - the reconcile in flight, so that a status that this process wrote causes no further reconcile (inflight.go),
//   - how many reconciles have sent a write (budget.go).
//
// A restart loses the Tracker. This costs only time, because reconciles read everything again from the API server. A
// Tracker is safe for concurrent use.
type Tracker struct {
	mu   sync.Mutex
	keys map[Key]*tracked
	// writeBudget limits how often reconciles of a key may send a write.
	writeBudget *budget[Key]
}

// tracked is what a Tracker remembers for a key.
type tracked struct {
	// writes are the newest writes that the caches have not observed yet.
	writes map[Store]write
	// deleted are the objects that this process has deleted, by name.
	deleted map[string]types.UID
	// rewrites are the objects in which the API server keeps values other than the written values, by name.
	rewrites map[string]rewrite
	// warnings are the Events to record at the end of the reconcile.
	warnings []Note
	// inFlight is the reconcile that has begun and not ended. Nil if there is none.
	inFlight *inFlight
	// status is the version of the last status that this process wrote, until an informer has delivered it.
	status string
}

// NewTracker returns an empty Tracker.
func NewTracker() *Tracker {
	return &Tracker{keys: map[Key]*tracked{}, writeBudget: newBudget[Key](writeBurst, writeInterval)}
}

// tracked returns what the Tracker remembers for a key. The caller holds the lock.
func (t *Tracker) tracked(key Key) *tracked {
	if t.keys[key] == nil {
		t.keys[key] = &tracked{}
	}
	return t.keys[key]
}

// tidy drops the record of a key if the record is empty. The caller holds the lock.
func (t *Tracker) tidy(key Key) {
	if t.keys[key].isEmpty() {
		delete(t.keys, key)
	}
}

// isEmpty reports whether there is nothing to remember.
func (k *tracked) isEmpty() bool {
	return len(k.writes)+len(k.deleted)+len(k.rewrites)+len(k.warnings) == 0 && k.inFlight == nil && k.status == ""
}

// Forget forgets a key whose object does not exist any more.
func (t *Tracker) Forget(key Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.keys, key)
}
