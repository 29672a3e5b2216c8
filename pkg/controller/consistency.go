package controller

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// Store is the part of an informer's store that a Guard looks at.
type Store interface {
	// LastStoreSyncResourceVersion returns the newest resource version of its type that the store
	// has observed.
	LastStoreSyncResourceVersion() string
}

// Guard lets a process read its own writes. It records the resource version that each write for a
// key returned, and delays the next reconcile of the key until the cache of the written type has
// observed that version. Without it, a reconcile right after a write would decide by outdated
// objects: it could create a second Pod, or revert a status.
//
// It also records the objects for which nothing was left to do, so that they are not compared again
// before they change.
//
// A version that is not a number, and a store whose version went back (the API server was restored
// from a backup), count as observed.
type Guard struct {
	mu       sync.Mutex
	writes   map[Key]map[Store]write
	finished map[Key]map[string]types.UID
	settled  map[Key][]settlement
	acted    map[Key]bool
	inFlight map[Key]*inFlight
	// statuses are the versions of the last statuses that this process wrote, until an informer has
	// delivered them.
	statuses map[Key]string
	// writing limits how often a key is reconciled with a write.
	writing *budget[Key]
}

// settlement is an object for which nothing was left to do.
type settlement struct {
	what  string
	token uint64
}

type write struct {
	version string // what the API server answered
	seen    string // what the store held at that moment
}

// NewGuard returns an empty Guard.
func NewGuard() *Guard {
	return &Guard{
		writes:   map[Key]map[Store]write{},
		finished: map[Key]map[string]types.UID{},
		settled:  map[Key][]settlement{},
		acted:    map[Key]bool{},
		inFlight: map[Key]*inFlight{},
		statuses: map[Key]string{},
		writing:  newBudget[Key](writeBurst, writeInterval),
	}
}

// Wrote records that a reconcile of key wrote an object of the type that store caches, and the
// resource version of the response.
func (g *Guard) Wrote(key Key, store Store, version string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.acted[key] = true
	if g.writes[key] == nil {
		g.writes[key] = map[Store]write{}
	}
	if order, err := resourceversion.CompareResourceVersion(version, g.writes[key][store].version); err == nil && order < 0 {
		return // a write that changed nothing is answered with the version of the last that did
	}
	g.writes[key][store] = write{version: version, seen: store.LastStoreSyncResourceVersion()}
}

// CaughtUp reports whether the caches have observed every write recorded for key, and forgets
// those that they have. Objects must be read from a cache after this call.
func (g *Guard) CaughtUp(key Key) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.forgetObserved(key)
}

// forgetObserved forgets the writes for key that the caches have observed, and reports whether
// those are all. The caller holds the lock.
func (g *Guard) forgetObserved(key Key) bool {
	for store, w := range g.writes[key] {
		if !w.pending(store.LastStoreSyncResourceVersion()) {
			delete(g.writes[key], store)
		}
	}
	if len(g.writes[key]) > 0 {
		return false
	}
	delete(g.writes, key)
	return true
}

// Forget forgets everything about a key whose object is gone.
func (g *Guard) Forget(key Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.writes, key)
	delete(g.finished, key)
	delete(g.settled, key)
	delete(g.acted, key)
	delete(g.statuses, key)
}

// Acts records that a reconcile of key sends a write, whether that succeeds or not.
func (g *Guard) Acts(key Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.acted[key] = true
}

// hasActed reports whether the reconcile of key that is in flight has sent a write.
func (g *Guard) hasActed(key Key) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.acted[key]
}

// Settle records that nothing is left to do for an object of a key. what names the object among
// those of the key. token identifies what the object was compared with: its version, and the
// desired state.
func (g *Guard) Settle(key Key, what string, token uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := g.settled[key]
	i := slices.IndexFunc(all, func(s settlement) bool { return s.what == what })
	if i < 0 {
		g.settled[key] = slices.Concat(all, []settlement{{what, token}}) // without room for more
		return
	}
	all[i].token = token
}

// IsSettled reports whether the last Settle for the object had the same token.
func (g *Guard) IsSettled(key Key, what string, token uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Contains(g.settled[key], settlement{what, token})
}

// Finished records the last write for an object: its deletion, or the removal of its finalizer.
// what names the object among those of the key. There is no version to wait for: the response to a
// DELETE has none, and that to a patch which ends an object has the former one, so that CaughtUp
// is true for a cache that still has the object.
func (g *Guard) Finished(key Key, what string, object types.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.acted[key] = true
	if g.finished[key] == nil {
		g.finished[key] = map[string]types.UID{}
	}
	g.finished[key][what] = object
}

// IsFinished reports whether Finished was called for the object, which a cache may still have.
func (g *Guard) IsFinished(key Key, what string, object types.UID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.finished[key][what] == object && object != ""
}

func (w write) pending(now string) bool {
	if back, err := resourceversion.CompareResourceVersion(now, w.seen); err == nil && back < 0 {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(now, w.version)
	return err == nil && order < 0
}
