package controller

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// Store is the part of an informer's store that reports how far it has observed its type.
type Store interface {
	// LastStoreSyncResourceVersion returns the newest resource version of its type that the store
	// has observed.
	LastStoreSyncResourceVersion() string
}

// writes lets a process read its own writes. It records the resource version that each write for a
// key returned. A reconcile right after a write would otherwise decide by outdated objects: it could
// create a second Pod, or revert a status. (Kubernetes does the same in
// k8s.io/kubernetes/pkg/controller/util/consistency.)
//
// A version that is not a number, and a store whose version went back (the API server was restored
// from a backup), count as observed.
type writes struct {
	mu  sync.Mutex
	all map[Key]map[Store]write
}

type write struct {
	kind    string
	version string // in the response to the write
	seen    string // what the store had observed at that moment
}

// behindError is the error of a reconcile that was not started, because a cache has not observed a
// write of this process.
type behindError struct{ kind, written, observed string }

// Error implements error.
func (e *behindError) Error() string {
	return fmt.Sprintf("the cache of %ss has observed version %q, and this process wrote version %q", e.kind, e.observed, e.written)
}

// add records that a reconcile of key wrote an object of this kind, which store caches, and the
// resource version of the response.
func (w *writes) add(key Key, kind string, store Store, version string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all[key] == nil {
		w.all[key] = map[Store]write{}
	}
	if order, err := resourceversion.CompareResourceVersion(version, w.all[key][store].version); err == nil && order < 0 {
		return // the response to a write that changed nothing has the version of the last change
	}
	w.all[key][store] = write{kind: kind, version: version, seen: store.LastStoreSyncResourceVersion()}
}

// Observed returns nil if the caches have observed every write for key, and an error that names both
// versions otherwise. Objects must be read from a cache after this call.
func (w *writes) Observed(key Key) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var behind error
	for store, last := range w.all[key] {
		now := store.LastStoreSyncResourceVersion()
		if last.isPending(now) {
			behind = &behindError{kind: last.kind, written: last.version, observed: now}
			continue
		}
		delete(w.all[key], store)
	}
	if len(w.all[key]) == 0 {
		delete(w.all, key)
	}
	return behind
}

func (w *writes) forget(key Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.all, key)
}

// isPending reports whether a store that has observed the version now lacks the write.
func (w write) isPending(now string) bool {
	if back, err := resourceversion.CompareResourceVersion(now, w.seen); err == nil && back < 0 {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(now, w.version)
	return err == nil && order < 0
}
