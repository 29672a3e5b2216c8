package controller

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// PausedAnnotation stops all writes for an object on which it is "true": to its
// status, its finalizers and everything it owns. Taking it away goes on where
// things stood.
const PausedAnnotation = "windlass.dev/paused"

// ManagedByLabel and ManagedByWindlass mark every object that is made here.
// Informers of owned types select them, so that what is not ours never enters
// a cache.
const (
	ManagedByLabel    = "app.kubernetes.io/managed-by"
	ManagedByWindlass = "windlass"
)

// Object is what the engine needs of an API type. A generated type has all but
// the last two, which are one line each.
type Object interface {
	metav1.Object
	runtime.Object
	// StatusConditions points at status.conditions.
	StatusConditions() *[]metav1.Condition
	// StatusObservedGeneration points at status.observedGeneration.
	StatusObservedGeneration() *int64
}

// Reconciler is a kind: it makes the world what an object's spec says.
type Reconciler[T Object] interface {
	// Reconcile does one pass. obj is a private copy of the cached object, which
	// holds at least what this process last wrote to it, is not being deleted and
	// has its finalizer. Reconcile may write to objects that obj owns. It sets
	// obj.Status and nothing else on obj, and does not write obj; the engine
	// writes the status after the pass if it has changed, whether the pass
	// failed or not. Only a pass that was out of date, as after a conflict, says
	// nothing.
	//
	// Reconcile keeps no state of its own between passes that a restart may not
	// lose, and does not wait: what takes time is a RequeueAfter or an event.
	//
	// At the start of a pass Degraded is False and Stalled is absent; the other
	// conditions are those of the last pass. Reconcile says by a Summary how the object
	// is. The engine sets the times and generations of conditions, and has the error of a
	// pass take the place of its Summary; see Outcome.
	Reconcile(ctx context.Context, obj T) (Result, error)
}

// Finalizer is what a Reconciler is as well if garbage collection alone does not
// clean up after its kind.
type Finalizer[T Object] interface {
	// Finalize removes what obj left outside of the reach of garbage collection.
	// It is called, with a private copy, until it returns neither an error nor a
	// RequeueAfter; only then is the finalizer removed and obj allowed to go, without
	// another write of its status. It must bear being called again after it has
	// succeeded.
	Finalize(ctx context.Context, obj T) (Result, error)
}

// Versioned is what tells one version of an object from another.
type Versioned interface {
	GetUID() types.UID
	GetResourceVersion() string
}

// Deterministic is what a Reconciler is as well if what a pass does follows from versions in
// caches alone. A pass that found nothing to do is not repeated then while all of them
// are as they were.
type Deterministic[T Object] interface {
	// Inputs adds to seen all that Reconcile reads of caches besides obj, which it does not
	// change: by AddWanted what it makes if it is not there. What Reconcile asks the API
	// server, or a clock, must not decide of a pass with nothing left to do.
	Inputs(obj T, seen *Versions)
}

// Client is the part of a generated client for one namespace (or for the
// cluster) with which the engine writes the object itself.
type Client[T Object] interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error)
	UpdateStatus(ctx context.Context, obj T, opts metav1.UpdateOptions) (T, error)
	Patch(ctx context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string) (T, error)
}

// EventRecorder tells users of a transition. Implementations do not block.
type EventRecorder interface {
	// Event records that regarding has changed. eventType is
	// corev1.EventTypeNormal or corev1.EventTypeWarning, reason an identifier in
	// CamelCase, note a sentence.
	Event(regarding Object, eventType, reason, note string)
}
