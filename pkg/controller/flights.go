package controller

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// A write of an object's status comes back as an event. If that event added the key to the queue,
// each status write would cause a reconcile at once, whatever delay the last reconcile asked for, and an
// object whose status alternates would be reconciled in a hot loop. The event of a status that this
// process wrote therefore adds no key. A reconcile that has to go on once its status is stored returns
// Continue or a WaitFor with Soon.
//
// flights records the versions of the statuses that this process wrote. If another process or an
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

// flights are the reconciles that have begun and not ended, and the statuses that this process wrote.
type flights struct {
	mu  sync.Mutex
	all map[Key]*flight
	// statuses are the versions of the last statuses that this process wrote, until an informer has
	// delivered them.
	statuses map[Key]string
}

// flight is a reconcile that has begun and not ended.
type flight struct {
	version string // of the object that it fetched
	writes  bool   // whether it has sent a write
	// arrived is the version of the last status that an informer delivered during this reconcile and
	// that was not known to be written by this process. wake adds the key to the queue.
	arrived string
	wake    func()
}

// begin records that a reconcile of key begins, and that it fetched this version of the object.
func (f *flights) begin(key Key, version string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all[key] = &flight{version: version}
}

// Sends records that the reconcile of key that is in flight sends a write. The write may fail.
func (f *flights) Sends(key Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if current := f.all[key]; current != nil {
		current.writes = true
	}
}

// end records that the reconcile of key has ended, and reports whether it has sent a write. If another
// client wrote a status that an informer delivered during the reconcile, end adds key to the queue. Only now is it
// certain who wrote that status, because the event of a write may come before the response.
func (f *flights) end(key Key) (sent bool) {
	f.mu.Lock()
	ended := f.all[key]
	delete(f.all, key)
	if ended == nil {
		f.mu.Unlock()
		return false
	}
	foreign := ended.wake != nil && !f.claimOwn(key, ended.arrived)
	unread := isNewer(ended.arrived, ended.version) // the reconcile did not fetch this status
	f.mu.Unlock()
	if foreign && unread {
		ended.wake()
	}
	return ended.writes
}

// noteStatus records that an informer has delivered a version of key that differs from the previous
// version only in its status. If this process has not written the new version, wake is called: at once,
// or by end if a reconcile of key is in flight.
func (f *flights) noteStatus(key Key, version string, wake func()) {
	f.mu.Lock()
	own, current := f.claimOwn(key, version), f.all[key]
	if !own && current != nil {
		current.arrived, current.wake = version, wake
	}
	f.mu.Unlock()
	if !own && current == nil {
		wake()
	}
}

// WroteStatus records the version in the response to a write of the status of key.
func (f *flights) WroteStatus(key Key, version string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.statuses[key] = version
}

// claimOwn reports whether this process wrote the status in this version of key, or a later status. If the version is
// that of the last status, claimOwn forgets it, because its event has arrived. The version in the cache does not show
// who wrote it, because the cache may have a version before a handler gets the event. The caller holds the lock.
func (f *flights) claimOwn(key Key, version string) bool {
	last, waits := f.statuses[key]
	if !waits {
		return false
	}
	if version == last {
		delete(f.statuses, key)
		return true
	}
	return !isNewer(version, last) // the API server accepted the later write, so this process had read this version
}

func (f *flights) forget(key Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.statuses, key)
}

// isNewer reports whether a version is newer than another version. It returns true if the versions cannot
// be compared.
func isNewer(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err != nil || order > 0
}
