package controller

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
)

// Self returns the handler for informers of the kind itself: every event is
// about the object that it names. Of an initial list those are urgent that somebody
// has changed while no process worked. A status that this process wrote, which guard
// knows, asks for nothing; that of somebody else waits in the background.
func Self(q *Queue, guard *Guard) cache.ResourceEventHandler {
	return handler{queue: q, guard: guard, resyncs: true, waits: isUnseen, keys: func(obj metav1.Object) []Key {
		return []Key{{Namespace: obj.GetNamespace(), Name: obj.GetName()}}
	}}
}

// Owner returns the handler for informers of owned types: an event is about the
// object that controls the one it names, if that is of the given kind and scope.
// The version of the kind does not matter, as it may differ from the one in use
// when the owned object was made.
func Owner(q *Queue, kind schema.GroupKind, scope meta.RESTScopeName) cache.ResourceEventHandler {
	return handler{queue: q, keys: func(obj metav1.Object) []Key {
		ref := metav1.GetControllerOfNoCopy(obj)
		if ref == nil || schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind() != kind {
			return nil
		}
		if scope == meta.RESTScopeNameRoot {
			return []Key{{Name: ref.Name}}
		}
		return []Key{{Namespace: obj.GetNamespace(), Name: ref.Name}}
	}}
}

// Referrer returns the handler for informers of types that objects name in their
// spec without owning them: an event is about every object that referrers
// returns for the one it names. referrers reads an index of the cache.
func Referrer(q *Queue, referrers func(obj metav1.Object) []Key) cache.ResourceEventHandler {
	return handler{queue: q, keys: referrers}
}

// handler turns events into keys. What comes of an initial list or a resync is
// not urgent; what somebody did is.
type handler struct {
	queue   *Queue
	keys    func(obj metav1.Object) []Key
	resyncs bool // whether a resync is worth a pass
	// waits, if it is set, tells of an object of the initial list whether somebody waits
	// for a pass.
	waits func(obj any) bool
	// guard, if it is set, knows which statuses this process wrote.
	guard *Guard
}

// isUnseen tells whether no pass has seen what an object's spec says.
func isUnseen(obj any) bool {
	object, ok := obj.(Object)
	return ok && *object.StatusObservedGeneration() < object.GetGeneration()
}

func (h handler) OnAdd(obj any, isInInitialList bool) {
	lane := Urgent
	if isInInitialList && (h.waits == nil || !h.waits(obj)) {
		lane = Background
	}
	h.enqueue(obj, lane)
}

func (h handler) OnUpdate(oldObj, newObj any) {
	if sameVersion(oldObj, newObj) {
		if h.resyncs {
			h.enqueue(newObj, Background)
		}
		return
	}
	if status, ok := h.statusOf(oldObj, newObj); ok {
		h.guard.noteStatus(cache.MetaObjectToName(status), status.GetResourceVersion(), func() { h.enqueue(newObj, Background) })
		return
	}
	h.enqueueOthers(oldObj, newObj)
	h.enqueue(newObj, Urgent)
}

// statusOf returns an object of which an update has changed the status alone.
func (h handler) statusOf(oldObj, newObj any) (object Object, ok bool) {
	before, ok1 := oldObj.(Object)
	after, ok2 := newObj.(Object)
	return after, h.guard != nil && ok1 && ok2 && sameButStatus(before, after)
}

func (h handler) OnDelete(obj any) {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	h.enqueue(obj, Urgent)
}

func (h handler) enqueue(obj any, lane Lane) {
	object, err := meta.Accessor(obj)
	if err != nil {
		utilruntime.HandleError(fmt.Errorf("an informer delivered a %T, which is no API object", obj))
		return
	}
	for _, key := range h.keys(object) {
		h.queue.Add(key, lane)
	}
}

// enqueueOthers adds the keys that oldObj was about and newObj is not: an object
// may have changed its owner, or those that refer to it.
func (h handler) enqueueOthers(oldObj, newObj any) {
	older, err1 := meta.Accessor(oldObj)
	newer, err2 := meta.Accessor(newObj)
	if err1 != nil || err2 != nil {
		return
	}
	now := h.keys(newer)
	for _, key := range h.keys(older) {
		if !slices.Contains(now, key) {
			h.queue.Add(key, Urgent)
		}
	}
}

// sameVersion tells a resync: an update with nothing new.
func sameVersion(oldObj, newObj any) bool {
	older, ok1 := oldObj.(Versioned)
	newer, ok2 := newObj.(Versioned)
	return ok1 && ok2 && newer.GetResourceVersion() != "" && older.GetResourceVersion() == newer.GetResourceVersion()
}
