package controller

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// Each write of a status causes an event of the object. If this event added the key to the queue, the object would be
// reconciled at once, whatever delay the last reconcile asked for. An object whose status alternates would be
// reconciled in a hot loop. Therefore, the event of a status that this process wrote adds no key. A reconcile that must
// continue once its status is stored returns Continue, or a WaitFor with Soon.
//
// The Tracker records the versions of the statuses that this process wrote. If another process or an
// administrator writes a status, the object is reconciled in the background lane. The shipped roles do not
// allow other users to write a status (artifacts/rbac/users.yaml).

// sameButStatus reports whether two versions of an object differ only in their status and in the
// metadata that the API server sets at each write. It returns false for an object without a generation,
// because only a generation shows that the spec is the same.
func sameButStatus(before, after Object) bool {
	return after.GetGeneration() > 0 &&
		before.GetGeneration() == after.GetGeneration() &&
		before.GetUID() == after.GetUID() &&
		before.GetDeletionTimestamp().Equal(after.GetDeletionTimestamp()) &&
		maps.Equal(before.GetLabels(), after.GetLabels()) &&
		maps.Equal(before.GetAnnotations(), after.GetAnnotations()) &&
		slices.Equal(before.GetFinalizers(), after.GetFinalizers()) &&
		equality.Semantic.DeepEqual(before.GetOwnerReferences(), after.GetOwnerReferences())
}

// flight is a reconcile that has begun and not ended.
type flight struct {
	version string // of the object that the reconcile fetched
	writes  bool   // whether it has sent a write
	// arrived is the version of the last status that an informer delivered during this reconcile, if this process is not
	// known to have written the status. wake adds the key to the queue.
	arrived string
	wake    func()
}

// begin records that a reconcile of key begins with this version of the object.
func (t *Tracker) begin(key Key, version string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.of(key).flight = &flight{version: version}
}

// Sends records that the reconcile in flight of key sends a write. The write may fail.
func (t *Tracker) Sends(key Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.of(key).sends()
}

func (k *tracked) sends() {
	if k.flight != nil {
		k.flight.writes = true
	}
}

// end records that the reconcile of key has ended, and reports whether the reconcile has sent a write. If an informer
// delivered a status of another client during the reconcile, end adds key to the queue. Who wrote the status is certain
// only at the end of the reconcile, because the event of a write may come before the response.
func (t *Tracker) end(key Key) (sent bool) {
	t.mu.Lock()
	k := t.of(key)
	ended := k.flight
	k.flight = nil
	foreign := ended.wake != nil && !k.claimOwn(ended.arrived)
	unread := isNewer(ended.arrived, ended.version) // the reconcile did not fetch this status
	t.tidy(key)
	t.mu.Unlock()
	if foreign && unread {
		ended.wake()
	}
	return ended.writes
}

// noteStatus records that an informer has delivered a version of key that differs from the previous version only in its
// status. If another client has written the new version, wake is called: by end if a reconcile of key is in flight, and
// otherwise at once.
func (t *Tracker) noteStatus(key Key, version string, wake func()) {
	t.mu.Lock()
	k := t.of(key)
	own, current := k.claimOwn(version), k.flight
	if !own && current != nil {
		current.arrived, current.wake = version, wake
	}
	t.tidy(key)
	t.mu.Unlock()
	if !own && current == nil {
		wake()
	}
}

// WroteStatus records the version in the response to a write of the status of key.
func (t *Tracker) WroteStatus(key Key, version string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.of(key).status = version
}

// claimOwn reports whether this process wrote the status in this version of the object, or a later status. If the
// status in this version is the last one that this process wrote, claimOwn forgets it, because its event has arrived.
// claimOwn does not read the cache, because the cache may have a version before a handler gets the event.
func (k *tracked) claimOwn(version string) bool {
	switch k.status {
	case "":
		return false
	case version:
		k.status = ""
		return true
	default:
		// The API server accepted the later write, so this process had read this version.
		return !isNewer(version, k.status)
	}
}

// isNewer reports whether a version is newer than another version. It returns true if the versions cannot
// be compared.
func isNewer(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err != nil || order > 0
}
