package controller

import (
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// Store is the part of an informer's store that shows whether the store is outdated.
type Store interface {
	// LastStoreSyncResourceVersion returns the newest resource version of the store's type that the
	// store has observed.
	LastStoreSyncResourceVersion() string
}

// writes makes a process read its own writes. For each key and store, it records the newest resource version
// in the responses to writes. A reconcile right after a write could otherwise use outdated objects, and create a
// second Pod or revert a status. (Kubernetes does the same in
// k8s.io/kubernetes/pkg/controller/util/consistency.)
//
// A write also counts as observed if its version is not a number, or if the version of the store went
// back, for example because the API server was restored from a backup.
type writes struct {
	mu  sync.Mutex
	all map[Key]map[Store]write
}

type write struct {
	kind    string
	version string // in the response to the write
	seen    string // version that the store had observed when the response arrived
}

// errBehind is the error of a reconcile that was not started, because a cache has not observed a
// write of this process.
var errBehind = errors.New("the cache is outdated")

// add records that a reconcile of key wrote an object of this kind, which store caches, and the
// resource version of the response.
func (w *writes) add(key Key, kind string, store Store, version string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all[key] == nil {
		w.all[key] = map[Store]write{}
	}
	if order, err := resourceversion.CompareResourceVersion(version, w.all[key][store].version); err == nil && order < 0 {
		return // the response to a write without a change has the resource version of the last change
	}
	w.all[key][store] = write{kind: kind, version: version, seen: store.LastStoreSyncResourceVersion()}
}

// Observed returns nil if the caches have observed every write for key, and otherwise an error that names
// the written and the observed version. A reconcile must read the objects from the caches after this call.
func (w *writes) Observed(key Key) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var behind error
	for store, last := range w.all[key] {
		now := store.LastStoreSyncResourceVersion()
		if last.isPending(now) {
			behind = fmt.Errorf("%w: it has version %q of kind %s, and this process wrote version %q", errBehind, now, last.kind,
				last.version)
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

// isPending reports whether a store lacks the write. now is the version that the store has observed.
func (w write) isPending(now string) bool {
	if back, err := resourceversion.CompareResourceVersion(now, w.seen); err == nil && back < 0 {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(now, w.version)
	return err == nil && order < 0
}
