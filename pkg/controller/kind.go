package controller

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// Kind declares an API type. The engine derives the controller of the type, with its queue, its pipeline and its
// watches, from the declaration. All fields down to Tracker are required.
type Kind[T Object] struct {
	GroupVersionKind schema.GroupVersionKind
	// Informer fills the cache of the objects.
	Informer cache.SharedIndexInformer
	// Lister returns the generated lister of the objects in namespace: see ListerOf. The lister reads the cache of
	// Informer.
	Lister func(namespace string) Lister[T]
	// Client returns the client for the objects in namespace, which is empty for a cluster-scoped kind.
	Client     func(namespace string) Client[T]
	Reconciler Reconciler[T]
	// Tracker records the writes of the Reconciler. The Reconciler must use the same Tracker.
	Tracker *Tracker

	// Finalizer, if it is set, is called before an object is deleted.
	Finalizer Finalizer[T]
	// Release, if it is set, removes the finalizer that the kind has put on the children of an object. (Finalizer is about
	// the object itself.) The engine calls Release while the object is being deleted, and for a key whose object is not in
	// the cache. Release must first read the object from the API server, because the cache may be outdated. pending
	// reports whether the cache has a child with the finalizer: an event of that child causes another call. Another call
	// also follows an error.
	Release func(ctx context.Context, key Key) (pending bool, err error)
	// Resync is the time after which an object with nothing left to do is reconciled again, ±10 %, to
	// find drift that causes no event. Zero means never. (Resyncs of the informers are called redeliveries.)
	Resync time.Duration
	// Expected returns the time from which the operator has to make an object Ready, for the metrics of the time that this
	// takes. ok is false if the object may take as long as it needs, for example because it runs a command. Nil means the
	// time at which the spec changed.
	Expected func(T) (from time.Time, ok bool)
	// Owned are informers of the types that objects of a namespaced kind own in their namespace. An
	// event of an owned object adds the key of its controlling owner to the queue.
	Owned []cache.SharedIndexInformer
	// References are the relations of the kind to other types except ownership, for example to a type
	// of objects that a spec names.
	References []Reference
}

// Reference maps the events of an informer to objects of a kind.
type Reference struct {
	Informer cache.SharedIndexInformer
	// Referrers returns the keys of the objects of the kind that an event of obj concerns. It reads an
	// index, and does not block.
	Referrers func(obj metav1.Object) []Key
	// Optional is true if reconciles start before the informer has synced. The cache may then lack objects that exist, and
	// the Reconciler must allow for that.
	Optional bool
}

// Runtime has the dependencies that the controllers of all kinds share.
type Runtime struct {
	Events EventRecorder
	Clock  clock.WithTicker
	// Room reports whether the budget of a namespace has room again for an object that exceeded the budget. Nil means that
	// there is always room.
	Room Room
}

// Pipeline returns the pipeline of the kind.
func (k Kind[T]) Pipeline(r Runtime) *Pipeline[T] {
	return &Pipeline[T]{Kind: k, Runtime: r, Store: k.Informer.GetStore()}
}

func (k Kind[T]) expected(obj Object) (from time.Time, ok bool) {
	own, ok := obj.(T)
	if !ok {
		return time.Time{}, false
	}
	if k.Expected == nil {
		return time.Time{}, true
	}
	return k.Expected(own)
}

// Controller returns the controller of the kind. Its name is the kind in lower case. It returns an error if the
// declaration is not complete.
func (k Kind[T]) Controller(r Runtime) (*Controller, error) {
	if err := k.validate(); err != nil {
		return nil, fmt.Errorf("declaring kind %s: %w", k.GroupVersionKind.Kind, err)
	}
	queue := NewQueue(k.name(), r.Clock)
	c := New(k.name(), queue, k.Pipeline(r).Sync)
	c.kind = k.GroupVersionKind
	c.objects = newObjectMetrics(k.name(), r.Clock, k.Finalizer.Name, k.expected)
	c.Watch(k.Informer, fanOut{SelfHandler(queue, k.Tracker), c.objects})
	// observe fails only if the informer has started, as in some tests. Failed watches are then not recorded.
	if failures := newWatchFailures(r.Clock); failures.observe(k.name(), k.Informer) == nil {
		c.watchFailures = failures
	}
	c.cached = func(key Key) (Object, error) { return k.Lister(key.Namespace).Get(key.Name) }
	for _, owned := range k.Owned {
		c.Watch(owned, OwnerHandler(queue, k.GroupVersionKind.GroupKind()))
	}
	for _, reference := range k.References {
		watch := c.Watch
		if reference.Optional {
			watch = c.WatchOptional
		}
		watch(reference.Informer, ReferrerHandler(queue, reference.Referrers))
	}
	return c, nil
}

// validate returns an error if a required field or a part of Finalizer is not set, or if the Reconciler has a method
// Finalize that nothing would call.
func (k Kind[T]) validate() error {
	switch {
	case k.GroupVersionKind.Empty() || k.Informer == nil || k.Lister == nil || k.Client == nil || k.Reconciler == nil ||
		k.Tracker == nil:
		return errors.New("one of GroupVersionKind, Informer, Lister, Client, Reconciler and Tracker is not set")
	case k.Finalizer.Finalize == nil && k.Finalizer.Name != "":
		return fmt.Errorf("the finalizer %s has no function Finalize", k.Finalizer.Name)
	case k.Finalizer.Finalize != nil && k.Finalizer.Name == "":
		return errors.New("the function Finalize has no name of a finalizer")
	}
	if _, found := reflect.TypeOf(k.Reconciler).MethodByName("Finalize"); found && k.Finalizer.Finalize == nil {
		return errors.New("the Reconciler has a method Finalize, which nothing calls: set Finalizer")
	}
	return nil
}

func (k Kind[T]) name() string { return strings.ToLower(k.GroupVersionKind.Kind) }
