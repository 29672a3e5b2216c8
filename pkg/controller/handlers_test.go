package controller_test

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/cache/budget"
	"windlass.dev/windlass/pkg/cache/packed"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

// nobody is the name of a key that separates the urgent keys from the keys of the background lane.
const nobody = "|"

// enqueued returns the keys that handle adds to a queue: the urgent keys, nobody, and the keys of the
// background lane.
func enqueued(handle func(q *controller.Queue)) []string {
	q := controller.NewQueue("", clock.RealClock{})
	defer q.ShutDown()
	q.Add(controller.Key{Name: nobody}, controller.Background)
	handle(q)
	var names []string
	for q.Len() > 0 {
		key, _ := q.Get()
		names = append(names, key.String())
		q.Done(key)
	}
	return names
}

// child returns an object with owners. The first owner controls it.
func child(version string, owners ...metav1.OwnerReference) *metav1.PartialObjectMetadata {
	c := &metav1.PartialObjectMetadata{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "child", ResourceVersion: version, OwnerReferences: owners},
	}
	if len(owners) > 0 {
		c.OwnerReferences[0].Controller = ptr.To(true)
	}
	return c
}

func owner(apiVersion, kind, name string) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name}
}

func lost(obj any) any { return cache.DeletedFinalStateUnknown{Key: "default/lost", Obj: obj} }

func version(toy *Toy, version string) *Toy {
	toy.ResourceVersion = version
	return toy
}

// changed returns toy with a generation that was not reconciled yet.
func changed(toy *Toy) *Toy {
	toy.Generation = *toy.StatusObservedGeneration() + 1
	return toy
}

func TestSelf(t *testing.T) {
	a := newToy("a")
	for name, test := range map[string]struct {
		event func(h cache.ResourceEventHandler)
		want  []string
	}{
		"an object of the initial list waits in the background": {
			func(h cache.ResourceEventHandler) { h.OnAdd(a, true) }, []string{nobody, "default/a"},
		},
		"object of the initial list with a new generation is urgent": {
			func(h cache.ResourceEventHandler) { h.OnAdd(changed(newToy("a")), true) }, []string{"default/a", nobody},
		},
		"a created object is urgent": {
			func(h cache.ResourceEventHandler) { h.OnAdd(a, false) }, []string{"default/a", nobody},
		},
		"a changed object is urgent": {
			func(h cache.ResourceEventHandler) { h.OnUpdate(version(newToy("a"), "1"), version(newToy("a"), "2")) },
			[]string{"default/a", nobody},
		},
		"a resync waits in the background": {
			func(h cache.ResourceEventHandler) { h.OnUpdate(version(newToy("a"), "1"), version(newToy("a"), "1")) },
			[]string{nobody, "default/a"},
		},
		"an update without versions may be a change": {
			func(h cache.ResourceEventHandler) { h.OnUpdate(a, a) }, []string{"default/a", nobody},
		},
		"a deleted object is urgent": {
			func(h cache.ResourceEventHandler) { h.OnDelete(a) }, []string{"default/a", nobody},
		},
		"an object whose deletion was missed is urgent": {
			func(h cache.ResourceEventHandler) { h.OnDelete(lost(a)) }, []string{"default/a", nobody},
		},
		"a cluster-scoped object has a key without a namespace": {
			func(h cache.ResourceEventHandler) {
				h.OnAdd(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, false)
			}, []string{"c", nobody},
		},
	} {
		t.Run(name, func(t *testing.T) {
			controllertest.Equal(t, "keys", test.want,
				enqueued(func(q *controller.Queue) { test.event(controller.SelfHandler(q, controller.NewTracker())) }))
		})
	}
}

// ofPacked packs objects before it passes them to a handler.
type ofPacked struct {
	t *testing.T
	h cache.ResourceEventHandler
}

func (p ofPacked) OnAdd(obj any, initially bool) { p.h.OnAdd(p.pack(obj), initially) }
func (p ofPacked) OnUpdate(before, after any)    { p.h.OnUpdate(p.pack(before), p.pack(after)) }
func (p ofPacked) OnDelete(obj any) {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		p.h.OnDelete(lost(p.pack(tombstone.Obj)))
		return
	}
	p.h.OnDelete(p.pack(obj))
}

func (p ofPacked) pack(obj any) any {
	p.t.Helper()
	o, err := new(packed.Packers).Transform(&budget.Budget{}, "windlass.dev")(obj)
	if _, ok := o.(*packed.Object); !ok || err != nil {
		p.t.Fatalf("it is a %T (%v)", o, err)
	}
	return o
}

func TestOwner(t *testing.T) {
	ours := owner("toys.example.com/v1", "Toy", "a")
	for name, test := range map[string]struct {
		event func(h cache.ResourceEventHandler)
		want  []string
	}{
		"a child of the initial list waits in the background": {
			event: func(h cache.ResourceEventHandler) { h.OnAdd(child("1", ours), true) }, want: []string{nobody, "default/a"},
		},
		"a created child is urgent": {
			event: func(h cache.ResourceEventHandler) { h.OnAdd(child("1", ours), false) }, want: []string{"default/a", nobody},
		},
		"a changed child is urgent": {
			event: func(h cache.ResourceEventHandler) {
				h.OnUpdate(child("1", ours), child("2", ours))
			}, want: []string{"default/a", nobody},
		},
		"a resync of a child queues nothing": {
			event: func(h cache.ResourceEventHandler) { h.OnUpdate(child("1", ours), child("1", ours)) }, want: []string{nobody},
		},
		"a child whose deletion was missed is urgent": {
			event: func(h cache.ResourceEventHandler) { h.OnDelete(lost(child("1", ours))) }, want: []string{
				"default/a", nobody,
			},
		},
		"a child with another owner than before queues both owners": {
			event: func(h cache.ResourceEventHandler) {
				h.OnUpdate(child("1", ours), child("2", owner("toys.example.com/v1", "Toy", "b")))
			}, want: []string{"default/a", "default/b", nobody},
		},
		"an owner in another version of its API is queued": {
			event: func(h cache.ResourceEventHandler) {
				h.OnAdd(child("1", owner("toys.example.com/v7", "Toy", "a")), false)
			}, want: []string{"default/a", nobody},
		},
		"an owner of another API group is not queued": {
			event: func(h cache.ResourceEventHandler) {
				h.OnAdd(child("1", owner("example.com/v1", "Toy", "a")), false)
			}, want: []string{nobody},
		},
		"an owner of another kind is not queued": {
			event: func(h cache.ResourceEventHandler) {
				h.OnAdd(child("1", owner("toys.example.com/v1", "Box", "a")), false)
			}, want: []string{nobody},
		},
		"an owner that does not control the child is not queued": {
			event: func(h cache.ResourceEventHandler) { h.OnAdd(child("1", owner("v1", "Pod", "p"), ours), false) },
			want:  []string{nobody},
		},
		"an object without an owner queues nothing": {
			event: func(h cache.ResourceEventHandler) { h.OnAdd(child("1"), false) }, want: []string{nobody},
		},
	} {
		t.Run(name, func(t *testing.T) {
			controllertest.Equal(t, "keys", test.want, enqueued(func(q *controller.Queue) {
				test.event(controller.OwnerHandler(q, toyKind.GroupKind()))
			}))
			controllertest.Equal(t, "keys if the cache is packed", test.want, enqueued(func(q *controller.Queue) {
				test.event(ofPacked{t, controller.OwnerHandler(q, toyKind.GroupKind())})
			}))
		})
	}
}

func TestReferrer(t *testing.T) {
	// In this test the labels of an object are the names of its referrers.
	referrers := func(obj metav1.Object) []controller.Key {
		var keys []controller.Key
		for name := range obj.GetLabels() {
			keys = append(keys, keyOf(name))
		}
		return keys
	}
	named := func(version, by string) *metav1.PartialObjectMetadata {
		c := child(version)
		c.Labels = map[string]string{by: ""}
		return c
	}
	for name, test := range map[string]struct {
		event func(h cache.ResourceEventHandler)
		want  []string
	}{
		"a changed object is urgent for its previous and its new referrers": {
			func(h cache.ResourceEventHandler) { h.OnUpdate(named("1", "a"), named("2", "b")) }, []string{
				"default/a", "default/b", nobody,
			},
		},
		"an object without referrers queues nothing": {
			func(h cache.ResourceEventHandler) { h.OnDelete(child("1")) }, []string{nobody},
		},
	} {
		t.Run(name, func(t *testing.T) {
			controllertest.Equal(t, "keys", test.want,
				enqueued(func(q *controller.Queue) { test.event(controller.ReferrerHandler(q, referrers)) }))
		})
	}
}

func TestHandlersReportInvalidObjects(t *testing.T) {
	reported := 0
	handlers := utilruntime.ErrorHandlers
	utilruntime.ErrorHandlers = []utilruntime.ErrorHandler{func(context.Context, error, string, ...any) { reported++ }}
	defer func() { utilruntime.ErrorHandlers = handlers }()

	got := enqueued(func(q *controller.Queue) {
		for _, h := range []cache.ResourceEventHandler{
			controller.SelfHandler(q, controller.NewTracker()), controller.OwnerHandler(q, toyKind.GroupKind()),
			controller.ReferrerHandler(q, func(metav1.Object) []controller.Key { return []controller.Key{keyOf("a")} }),
		} {
			h.OnDelete(lost(nil))
		}
	})
	controllertest.Equal(t, "keys", []string{nobody}, got)
	controllertest.Equal(t, "reported objects", 3, reported)
}
