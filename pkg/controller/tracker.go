package controller

import "k8s.io/apimachinery/pkg/types"

// Tracker remembers the requests of one controller, by the key of the object that it reconciled:
//
//   - writes that the caches have not observed yet, so that a process reads its own writes,
//   - objects that this process has deleted, which a cache may still have,
//   - comparisons that found nothing to do, so that they are not repeated,
//   - the reconciles in flight, so that a status that this process wrote causes no further reconcile.
//
// A restart loses only time, because everything here follows from the API server again. A Tracker is
// safe for concurrent use.
type Tracker struct {
	writes
	tombstones
	noOps
	flights
	// writing limits how often a key is reconciled with a write.
	writing *budget[Key]
}

// NewTracker returns an empty Tracker.
func NewTracker() *Tracker {
	return &Tracker{
		writes:     writes{all: map[Key]map[Store]write{}},
		tombstones: tombstones{all: map[Key]map[string]types.UID{}},
		noOps:      noOps{all: map[Key][]noOp{}},
		flights:    flights{all: map[Key]*flight{}, statuses: map[Key]string{}},
		writing:    newBudget[Key](writeBurst, writeInterval),
	}
}

// Wrote records a write, which Observed waits for: a reconcile of key wrote an object of this kind,
// which store caches, and the response had this resource version.
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

// Forget forgets a key whose object is gone.
func (t *Tracker) Forget(key Key) {
	t.writes.forget(key)
	t.tombstones.forget(key)
	t.noOps.forget(key)
	t.flights.forget(key)
}
