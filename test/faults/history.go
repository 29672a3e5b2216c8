package faults

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// history holds the events of all objects of a run, by resource and in the order of their versions.
type history struct {
	mu     sync.Mutex
	events [][]event
	newest map[types.UID]*object // the newest version of each object; nil after its deletion
	now    time.Time             // the time in the bubble of the newest call
	// deletionTimes has the time in the bubble at which each object with finalizers was deleted.
	deletionTimes map[types.UID]string
}

func newHistory() *history {
	return &history{
		events: make([][]event, len(resources)), newest: map[types.UID]*object{}, deletionTimes: map[types.UID]string{},
	}
}

func (h *history) add(e event) {
	if e.DeletionTimestamp != nil {
		e.raw = h.inBubbleTime(e.raw)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events[e.resource] = append(h.events[e.resource], e)
	h.newest[e.UID] = e.object
	if e.kind == watch.Deleted {
		h.newest[e.UID] = nil
	}
}

// hasVersion reports whether the history has an object in this or a later version, or the deletion of the object.
func (h *history) hasVersion(uid types.UID, version uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	object, known := h.newest[uid]
	return known && (object == nil || object.version >= version)
}

// hasDeletion reports whether the history has the deletion of an object.
func (h *history) hasDeletion(uid types.UID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	object, known := h.newest[uid]
	return known && object == nil
}

// eventAt returns the event at an index among the events of a resource, and false if there is no such event yet.
func (h *history) eventAt(resource, index int) (event, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if index >= len(h.events[resource]) {
		return event{}, false
	}
	return h.events[resource][index], true
}

// eventsUntil returns the events of all resources up to a version, sorted by version.
func (h *history) eventsUntil(version uint64) []event {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []event
	for _, events := range h.events {
		for _, e := range events {
			if e.version <= version {
				all = append(all, e)
			}
		}
	}
	slices.SortFunc(all, func(a, b event) int { return cmp.Compare(a.version, b.version) })
	return all
}

// lastVersion returns the version of the newest event up to limit, or 0 if there is none.
func (h *history) lastVersion(limit uint64) (version uint64) {
	for _, e := range h.eventsUntil(limit) {
		version = e.version
	}
	return version
}

// objects returns the objects of a resource that exist at a version, sorted by name, and the number of the resource's
// events up to that version.
func (h *history) objects(resource int, version uint64) (objects []*object, events int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	byName := map[string]*object{}
	for _, e := range h.events[resource] {
		if e.version > version {
			break
		}
		events++
		byName[e.Name] = e.object
		if e.kind == watch.Deleted {
			delete(byName, e.Name)
		}
	}
	for _, o := range byName {
		objects = append(objects, o)
	}
	slices.SortFunc(objects, func(a, b *object) int { return cmp.Compare(a.Name, b.Name) })
	return objects, events
}

// newestVersion is higher than all versions, and selects the newest state.
const newestVersion = ^uint64(0)

// current returns the newest version of each object that exists, in the order of resources.
func (h *history) current() []*object {
	var all []*object
	for i := range resources {
		objects, _ := h.objects(i, newestVersion)
		all = append(all, objects...)
	}
	return all
}
