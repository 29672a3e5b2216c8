package controller

import "k8s.io/apimachinery/pkg/util/resourceversion"

// Each write of a status causes an event of the object. If this event added the key to the queue, the object would be
// reconciled at once, whatever delay the last reconcile asked for. An object whose status alternates would be
// reconciled in a hot loop. Therefore, the event of a status that this process wrote adds no key. A reconcile that must
// continue once its status is stored returns Continue, or a WaitFor with Soon.
//
// The event of a status may arrive at these times:
//
//	own, before the response     noteStatusEvent keeps it; endReconcile, which knows the version, drops it
//	own, after the response      noteStatusEvent drops it, during the reconcile or after the end
//	foreign, during a reconcile  noteStatusEvent keeps it; endReconcile calls wake if the reconcile did not fetch it
//	foreign, after the end       noteStatusEvent calls wake
//
// The Tracker records the versions of the statuses that this process wrote. If another process or an
// administrator writes a status, the object is reconciled in the background lane. The shipped roles do not
// allow other users to write a status (artifacts/rbac/users.yaml).

// inFlight is a reconcile that has begun and not ended.
type inFlight struct {
	version string // of the object that the reconcile fetched
	writes  bool   // whether the reconcile has sent a write
	// arrived is the version of the last status that an informer delivered during this reconcile, if this process is not
	// known to have written the status. One version is enough, because the next reconcile fetches the newest version. wake
	// adds the key to the queue.
	arrived string
	wake    func()
}

// beginReconcile records that a reconcile of key begins with this version of the object.
func (t *Tracker) beginReconcile(key Key, version string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tracked(key).inFlight = &inFlight{version: version}
}

// Sends records that the reconcile in flight of key sends a write. Call Sends before the request: a write that fails
// counts against the write budget, too, because each event could cause another attempt. Wrote and Deleted imply Sends.
func (t *Tracker) Sends(key Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tracked(key).sends()
}

func (k *tracked) sends() {
	if k.inFlight != nil {
		k.inFlight.writes = true
	}
}

// endReconcile records that the reconcile of key has ended, and reports whether the reconcile has sent a write. If an
// informer delivered a status of another client during the reconcile, endReconcile adds key to the queue. Who wrote the
// status is certain only at the end of the reconcile, because the event of a write may come before the response.
func (t *Tracker) endReconcile(key Key) (sentWrite bool) {
	t.mu.Lock()
	k := t.tracked(key)
	ended := k.inFlight
	k.inFlight = nil
	foreign := ended.wake != nil && !k.consumeOwnStatus(ended.arrived)
	fetched := !isNewer(ended.arrived, ended.version) // the reconcile began with this status
	t.tidy(key)
	t.mu.Unlock()
	if foreign && !fetched {
		ended.wake()
	}
	return ended.writes
}

// noteStatusEvent records that an informer has delivered a version of key that differs from the previous version only
// in its status. If another client has written the new version, wake is called: by endReconcile if a reconcile of key
// is in flight, and otherwise at once.
func (t *Tracker) noteStatusEvent(key Key, version string, wake func()) {
	t.mu.Lock()
	k := t.tracked(key)
	own, current := k.consumeOwnStatus(version), k.inFlight
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
	t.tracked(key).status = version
}

// consumeOwnStatus reports whether this process wrote the status in a version of the object, or a later status. If the
// version has the last status that this process wrote, consumeOwnStatus forgets that status, because its event has
// arrived. consumeOwnStatus does not read the cache, because the cache may have a version before a handler gets the
// event.
func (k *tracked) consumeOwnStatus(version string) bool {
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
