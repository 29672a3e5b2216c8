package controller

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// AnnotationDomain is the domain of the annotations by which the engine marks objects and their
// children, whatever the operator.
const AnnotationDomain = "windlass.dev"

// PausedAnnotation stops, if it is "true", all writes for an object: to its status, its finalizers
// and the objects that it owns. Without it the operator goes on where it stopped.
const PausedAnnotation = AnnotationDomain + "/paused"

// ManagedByLabel and its value ManagedByWindlass mark every object that the operator creates.
// Informers of owned types select it, which keeps other objects out of the caches.
const (
	ManagedByLabel    = "app.kubernetes.io/managed-by"
	ManagedByWindlass = "windlass"
)

// Object is implemented by the API types that the engine reconciles. A generated type has all
// methods but the last two, which take one line each.
type Object interface {
	metav1.Object
	runtime.Object
	// StatusConditions points at status.conditions.
	StatusConditions() *[]metav1.Condition
	// StatusObservedGeneration points at status.observedGeneration.
	StatusObservedGeneration() *int64
}

// Reconciler is implemented by each kind.
type Reconciler[T Object] interface {
	// Reconcile brings the observed state closer to what the spec of obj says. obj is a private
	// copy of the cached object. The copy includes every write of this process, is not being
	// deleted and has its finalizer. Reconcile may write the objects that obj owns. Of obj itself
	// it changes the status alone, in memory: the engine writes the status afterwards if it has
	// changed, also if Reconcile failed. Only errors that say nothing about the object, such as a
	// conflict, leave the stored status as it is.
	//
	// Reconcile may not keep state that a restart must not lose, and does not block: to wait, it
	// returns a RequeueAfter or relies on an event.
	//
	// When Reconcile is called, Degraded is False, Stalled is absent, and the other conditions are
	// those of the last reconcile. Reconcile sets the conditions by a Summary. The engine sets
	// their times and generations, and overwrites the Summary with the error that Reconcile
	// returns; see Outcome.
	Reconcile(ctx context.Context, obj T) (Result, error)
}

// Finalizer is implemented by the Reconcilers of kinds that have more to clean up than garbage
// collection does.
type Finalizer[T Object] interface {
	// Finalize deletes what garbage collection does not. obj is a private copy. Finalize is called
	// until it returns neither an error nor a RequeueAfter. The engine then removes the finalizer,
	// without another write of the status. Finalize may be called again after it succeeded.
	Finalize(ctx context.Context, obj T) (Result, error)
}

// Versioned identifies a version of an object.
type Versioned interface {
	GetUID() types.UID
	GetResourceVersion() string
}

// Deterministic is implemented by Reconcilers whose result depends only on cached objects. A
// reconcile that found nothing to do is not repeated as long as these objects do not change.
type Deterministic[T Object] interface {
	// Inputs adds every cached object that Reconcile reads, except obj, to seen: with AddWanted
	// those that Reconcile creates if they are missing, and with Add all others. It does not change
	// obj. A reconcile that finds nothing to do must not depend on an answer of the API server, or
	// on a clock.
	Inputs(obj T, seen *Versions)
}

// Client is the part of a generated client with which the engine reads and writes the objects of
// its kind, in one namespace or cluster-scoped.
type Client[T Object] interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error)
	UpdateStatus(ctx context.Context, obj T, opts metav1.UpdateOptions) (T, error)
	Patch(ctx context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string) (T, error)
}

// ClientOf returns the generated clients for the namespaces as a Kind has them, for example
// ClientOf(clientset.WindlassV1alpha1().Apps).
func ClientOf[T Object, C Client[T]](generated func(namespace string) C) func(namespace string) Client[T] {
	return func(namespace string) Client[T] { return generated(namespace) }
}

// EventRecorder records Events about transitions. Implementations do not block.
type EventRecorder interface {
	// Event records an Event about regarding. eventType is corev1.EventTypeNormal or
	// corev1.EventTypeWarning, reason an identifier in CamelCase, and note a sentence.
	Event(regarding Object, eventType, reason, note string)
}
