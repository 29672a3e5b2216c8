package controller

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// A write of an object's status comes back as an event. If that event were as good as any
// other, each status write would be followed by a reconcile at once, whatever delay the last
// one asked for, and an object whose status alternates would be reconciled in a hot loop. The
// shipped roles let nobody but the operator write a status (artifacts/rbac/users.yaml), so an
// event of which the status is all that changed asks for nothing: a reconcile that wants to go
// on once its status is stored says so, by Continue or StoreFirst.
//
// The Guard knows the versions that this process wrote. A status that another process or an
// administrator wrote is reconciled in the background.

// sameButStatus reports whether two versions of an object differ in nothing but their status
// and what the API server notes of a write. It is false without a generation, which tells
// whether the spec has changed.
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

// inFlight is a reconcile that has begun and not ended.
type inFlight struct {
	version string // of the object that it has fetched
	// arrived is the version of the last status that an informer has delivered meanwhile, and
	// wake reconciles it.
	arrived string
	wake    func()
}

// begin records that a reconcile of key begins, which has fetched this version.
func (g *Guard) begin(key Key, version string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.acted, key)
	g.inFlight[key] = &inFlight{version: version}
}

// end records that the reconcile has ended, and returns whether it has tried to write anything.
// A status that has arrived meanwhile may be its own, since the event may come before the
// answer. A status of somebody else is reconciled now.
func (g *Guard) end(key Key) (acted bool) {
	g.mu.Lock()
	flight, acted := g.inFlight[key], g.acted[key]
	delete(g.inFlight, key)
	delete(g.acted, key)
	foreign := flight != nil && flight.wake != nil && !g.isOwn(key, flight.arrived) && isNewer(flight.arrived, flight.version)
	g.mu.Unlock()
	if foreign {
		flight.wake()
	}
	return acted
}

// noteStatus records that an informer has delivered a version of key that differs from the
// one before in its status alone. It calls wake, now or when the reconcile of key that is in
// flight has ended, if this process has not written that version.
func (g *Guard) noteStatus(key Key, version string, wake func()) {
	g.mu.Lock()
	own, flight := g.isOwn(key, version), g.inFlight[key]
	if !own && flight != nil {
		flight.arrived, flight.wake = version, wake
	}
	g.mu.Unlock()
	if !own && flight == nil {
		wake()
	}
}

// WroteStatus records the version that a write of the status of key was answered with.
func (g *Guard) WroteStatus(key Key, version string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.statuses[key] = version
}

// isOwn reports whether this process wrote the status of a version of key, or has written one
// since, and so has seen it. Whether the cache holds the version does not matter: it may before
// its event is handled. It needs the lock.
func (g *Guard) isOwn(key Key, version string) bool {
	last := g.statuses[key]
	if version == last {
		delete(g.statuses, key)
		return true
	}
	return !isNewer(version, last)
}

// isNewer reports whether one version is newer than another. Versions that cannot be compared
// count as newer.
func isNewer(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err != nil || order > 0
}
