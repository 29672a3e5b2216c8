package controller

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// Store is the part of an informer's store that shows whether the store is outdated.
type Store interface {
	// LastStoreSyncResourceVersion returns the newest resource version of the store's type that the
	// store has observed.
	LastStoreSyncResourceVersion() string
}

// write is the newest write of a reconcile to a type, until the store of the type has observed the write. No reconcile
// of the key starts before that: a reconcile with outdated objects could create a second Pod or revert a status.
// (Kubernetes does the same in k8s.io/kubernetes/pkg/controller/util/consistency.)
//
// A write also counts as observed if its version is not a number, or if the version of the store went
// back, for example because the API server was restored from a backup.
type write struct {
	kind    string
	version string // in the response to the write
	seen    string // version that the store had observed when the response arrived
}

// errBehind is the error of a reconcile that was not started, because a cache has not observed a
// write of this process.
var errBehind = errors.New("the cache is outdated")

// Wrote records a write, so that Observed returns an error until store has observed the write. A reconcile of key wrote
// an object of this kind, and the response had this resource version. store caches the objects of the kind.
func (t *Tracker) Wrote(key Key, kind string, store Store, version string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.tracked(key)
	k.sends()
	if order, err := resourceversion.CompareResourceVersion(version, k.writes[store].version); err == nil && order < 0 {
		return // the response to a write without a change has the resource version of the last change
	}
	if k.writes == nil {
		k.writes = map[Store]write{}
	}
	k.writes[store] = write{kind: kind, version: version, seen: store.LastStoreSyncResourceVersion()}
}

// Observed returns nil if the caches have observed every write for key, and otherwise an error that names
// the written and the observed version. A reconcile must read the objects from the caches after this call.
func (t *Tracker) Observed(key Key) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var behind error
	writes := t.tracked(key).writes
	for store, last := range writes {
		now := store.LastStoreSyncResourceVersion()
		if last.isPending(now) {
			behind = fmt.Errorf("%w: it has version %q of kind %s, and this process wrote version %q", errBehind, now, last.kind,
				last.version)
			continue
		}
		delete(writes, store)
	}
	return behind
}

// isPending reports whether a store lacks the write. now is the version that the store has observed.
func (w write) isPending(now string) bool {
	if back, err := resourceversion.CompareResourceVersion(now, w.seen); err == nil && back < 0 {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(now, w.version)
	return err == nil && order < 0
}
