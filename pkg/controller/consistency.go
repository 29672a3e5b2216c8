package controller

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// Store is the part of an informer's store that a Guard looks at.
type Store interface {
	// LastStoreSyncResourceVersion is the newest resource version that the store
	// has seen of its type.
	LastStoreSyncResourceVersion() string
}

// Guard lets a process read its own writes. It remembers the resource version
// that each write for a key returned, and holds the key's next pass back until
// the cache of the type that was written has come that far. Without it a pass
// that follows a write closely would decide on what was there before: make a
// second Pod, or undo a status.
//
// It also remembers for what nothing was left to do, so that no pass looks at it again
// before it has changed.
//
// It holds back only what it is sure of. A version that cannot be read as a
// number, and a store that went back in time (the API server was restored from
// a backup), count as caught up.
type Guard struct {
	mu       sync.Mutex
	writes   map[Key]map[Store]write
	finished map[Key]map[string]types.UID
	settled  map[Key][]settlement
	acted    map[Key]bool
	inFlight map[Key]*inFlight
	// statuses are the versions with the last status that this process wrote, until an informer
	// has delivered them.
	statuses map[Key]string
	// writing is how often a key may be reconciled with a write.
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

// NewGuard returns a Guard that remembers nothing yet.
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

// Wrote records that a pass of key wrote an object of the type that store holds,
// and was answered with this resource version.
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

// CaughtUp tells whether the caches hold all that was recorded for key, and
// forgets what they hold. Only what is read from them afterwards is as new.
func (g *Guard) CaughtUp(key Key) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.forgetObserved(key)
}

// forgetObserved forgets the writes for key that the caches hold, and returns whether those
// are all. It needs the lock.
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

// Forget drops what was recorded for a key whose object is gone.
func (g *Guard) Forget(key Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.writes, key)
	delete(g.finished, key)
	delete(g.settled, key)
	delete(g.acted, key)
	delete(g.statuses, key)
}

// Acts records that a pass of key tries to write something, whatever comes of it.
func (g *Guard) Acts(key Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.acted[key] = true
}

// hasActed tells whether the pass of key that is in flight has tried to write anything.
func (g *Guard) hasActed(key Key) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.acted[key]
}

// Settle records that nothing is left to do for an object of a key, so that the next pass
// need not look at it again. what names the object among those of the key, and token
// tells of all that this depends on: its version, and what is wanted.
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

// IsSettled tells whether that was recorded last.
func (g *Guard) IsSettled(key Key, what string, token uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Contains(g.settled[key], settlement{what, token})
}

// Finished records that a pass of key has done the last that this process does with an
// object: deleted it, or taken its finalizer off. what names the object among those of
// the key. There is no version to wait for: a DELETE is answered with none, and a patch
// that ends an object with that from before, so that a cache which has the object still
// counts as caught up.
func (g *Guard) Finished(key Key, what string, object types.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.acted[key] = true
	if g.finished[key] == nil {
		g.finished[key] = map[string]types.UID{}
	}
	g.finished[key][what] = object
}

// IsFinished tells whether that was recorded, whatever a cache says of the object.
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
