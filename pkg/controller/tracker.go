package controller

import "k8s.io/apimachinery/pkg/types"

// Tracker remembers for each key of one controller:
//
//   - writes that the caches have not observed yet, so that a process reads its own writes (writes.go),
//   - objects that this process has deleted, which a cache may still have (tombstones.go),
//   - objects in which the API server keeps other values than the written ones (rewrites.go),
//   - the reconciles in flight, so that a status that this process wrote causes no further reconcile (flights.go),
//   - how many reconciles have sent a write (budget.go).
//
// Losing a Tracker at a restart costs only time, because reconciles find out everything again from the
// API server. A Tracker is safe for concurrent use.
type Tracker struct {
	writes
	tombstones
	rewrites
	flights
	// writeBudget limits how often a key may be reconciled by reconciles that send a write.
	writeBudget *budget[Key]
}

// NewTracker returns an empty Tracker.
func NewTracker() *Tracker {
	return &Tracker{
		writes:      writes{all: map[Key]map[Store]write{}},
		tombstones:  tombstones{all: map[Key]map[string]types.UID{}},
		rewrites:    rewrites{all: map[Key]map[string]rewrite{}, warnings: map[Key][]Note{}},
		flights:     flights{all: map[Key]*flight{}, statuses: map[Key]string{}},
		writeBudget: newBudget[Key](writeBurst, writeInterval),
	}
}

// Wrote records a write, so that Observed returns an error until store has observed it: a reconcile of
// key wrote an object of this kind, which store caches, and the response had this resource version.
func (t *Tracker) Wrote(key Key, kind string, store Store, version string) {
	t.Sends(key)
	t.writes.add(key, kind, store, version)
}

// Deleted records that a reconcile of key has deleted an object, or removed the finalizer that held
// it. name is unique among the objects of the key.
func (t *Tracker) Deleted(key Key, name string, object types.UID) {
	t.Sends(key)
	t.tombstones.add(key, name, object)
}

// Forget forgets a key whose object does not exist any more.
func (t *Tracker) Forget(key Key) {
	t.writes.forget(key)
	t.tombstones.forget(key)
	t.rewrites.forget(key)
	t.flights.forget(key)
}
