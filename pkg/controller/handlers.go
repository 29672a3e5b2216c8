package controller

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
)

// SelfHandler returns the handler for the informer of the kind itself. The handler adds the key of each changed object
// to the urgent lane. An object of the initial list is urgent only if its spec has changed since the last reconcile. An
// update of only the status adds the key to the background lane if another client wrote the status, and adds no key if
// this process wrote the status, as tracker records.
func SelfHandler(q *Queue, tracker *Tracker) cache.ResourceEventHandler {
	return handler{queue: q, tracker: tracker, keys: func(obj metav1.Object) []Key {
		return []Key{{Namespace: obj.GetNamespace(), Name: obj.GetName()}}
	}}
}

// OwnerHandler returns the handler for informers of owned types. The handler adds the key of the object's
// controlling owner if the owner has the given namespaced kind. The API version in the owner reference is
// ignored, because it may have changed since the owned object was created.
func OwnerHandler(q *Queue, kind schema.GroupKind) cache.ResourceEventHandler {
	return handler{queue: q, keys: func(obj metav1.Object) []Key {
		ref := metav1.GetControllerOfNoCopy(obj)
		if ref == nil || schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind() != kind {
			return nil
		}
		return []Key{{Namespace: obj.GetNamespace(), Name: ref.Name}}
	}}
}

// ReferrerHandler returns the handler for informers of types that specs refer to. The handler adds the keys that
// referrers returns from an index of the cache.
func ReferrerHandler(q *Queue, referrers func(obj metav1.Object) []Key) cache.ResourceEventHandler {
	return handler{queue: q, keys: referrers}
}

// handler turns events into keys. A changed object is urgent. Three events add a key to the background lane: a status
// change by another client, a redelivery, and an object of the initial list without a new spec.
type handler struct {
	queue *Queue
	keys  func(obj metav1.Object) []Key
	// tracker knows which statuses this process wrote. It is nil in the handlers of owned and
	// referenced objects. Without a tracker, a redelivery adds no key, and no object of the initial list is urgent.
	tracker *Tracker
}

func (h handler) OnAdd(obj any, isInInitialList bool) {
	lane := Urgent
	if isInInitialList && (h.tracker == nil || !hasNewSpec(obj)) {
		lane = Background
	}
	h.enqueue(obj, lane)
}

func (h handler) OnUpdate(oldObj, newObj any) {
	if isRedelivery(oldObj, newObj) {
		if h.tracker != nil {
			h.enqueue(newObj, Background)
		}
		return
	}
	if status, ok := h.onlyStatusChanged(oldObj, newObj); ok {
		h.tracker.noteStatusEvent(cache.MetaObjectToName(status), status.GetResourceVersion(), func() {
			h.enqueue(newObj, Background)
		})
		return
	}
	h.enqueuePreviousKeys(oldObj, newObj)
	h.enqueue(newObj, Urgent)
}

// onlyStatusChanged returns newObj as an Object. ok reports whether the handler has a tracker and the update has
// changed only the status.
func (h handler) onlyStatusChanged(oldObj, newObj any) (object Object, ok bool) {
	before, ok1 := oldObj.(Object)
	after, ok2 := newObj.(Object)
	return after, h.tracker != nil && ok1 && ok2 && sameButStatus(before, after)
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
		utilruntime.HandleError(fmt.Errorf("handling an event of an informer: unexpected type %T", obj))
		return
	}
	for _, key := range h.keys(object) {
		h.queue.Add(key, lane)
	}
}

// enqueuePreviousKeys adds the keys of oldObj that are not keys of newObj, because the owner or the referrers of an
// object may change.
func (h handler) enqueuePreviousKeys(oldObj, newObj any) {
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

// isRedelivery reports whether an update delivers the same version of an object again, as in a resync of the informer.
func isRedelivery(oldObj, newObj any) bool {
	older, ok1 := oldObj.(Versioned)
	newer, ok2 := newObj.(Versioned)
	return ok1 && ok2 && newer.GetResourceVersion() != "" && older.GetResourceVersion() == newer.GetResourceVersion()
}

// sameButStatus reports whether two versions of an object differ only in their status and in the metadata that the API
// server sets at each write. It returns false for an object without a generation, because only a generation shows that
// the spec is the same.
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

// hasNewSpec reports whether the spec of an object has changed since the last reconcile.
func hasNewSpec(obj any) bool {
	object, ok := obj.(Object)
	return ok && *object.StatusObservedGeneration() < object.GetGeneration()
}
