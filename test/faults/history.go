package faults

import (
	"cmp"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// history is all that has happened in a scope, by type in the order of versions.
type history struct {
	mu     sync.Mutex
	events [][]event
	newest map[types.UID]*object // nil once it is deleted
}

func newHistory() *history {
	return &history{events: make([][]event, len(resources)), newest: map[types.UID]*object{}}
}

func (h *history) add(e event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events[e.resource] = append(h.events[e.resource], e)
	h.newest[e.UID] = e.object
	if e.kind == watch.Deleted {
		h.newest[e.UID] = nil
	}
}

// reached tells whether an object is known in a version, or to be gone.
func (h *history) reached(uid types.UID, version uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	object, known := h.newest[uid]
	return known && (object == nil || object.version >= version)
}

// gone tells whether an object is known to be so.
func (h *history) gone(uid types.UID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	object, known := h.newest[uid]
	return known && object == nil
}

// at is the event of a type at an index, if it has come so far.
func (h *history) at(resource, index int) (event, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if index >= len(h.events[resource]) {
		return event{}, false
	}
	return h.events[resource][index], true
}

// all are the events of all types up to a version, in order.
func (h *history) all(version uint64) []event {
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

// version is that of the newest event, at most limit.
func (h *history) version(limit uint64) (version uint64) {
	for _, e := range h.all(limit) {
		version = e.version
	}
	return version
}

// objects are those of a type as of a version, by name, and how many events made them so.
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

// newestVersion is later than all.
const newestVersion = ^uint64(0)

// current are all objects as they are now, in the order of resources.
func (h *history) current() []*object {
	var all []*object
	for i := range resources {
		objects, _ := h.objects(i, newestVersion)
		all = append(all, objects...)
	}
	return all
}
