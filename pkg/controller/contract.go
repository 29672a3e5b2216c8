package controller

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// AnnotationDomain is the domain of the annotations by which the engine marks objects and their
// children. It is the same for every operator that uses the engine.
const AnnotationDomain = "windlass.dev"

// ManagedByLabel marks every object that an operator creates. ManagedByWindlass is its value for
// Windlass. Informers of owned types select objects by this label, so that the caches hold no others.
const (
	ManagedByLabel    = "app.kubernetes.io/managed-by"
	ManagedByWindlass = "windlass"
)

// Object is implemented by the API types that the engine reconciles. Embedded types and generated code provide all
// methods but the last two.
type Object interface {
	metav1.Object
	runtime.Object
	// StatusConditions returns a pointer to status.conditions.
	StatusConditions() *[]metav1.Condition
	// StatusObservedGeneration returns a pointer to status.observedGeneration.
	StatusObservedGeneration() *int64
}

// Reconciler is implemented by each kind.
type Reconciler[T Object] interface {
	// Reconcile brings the observed state closer to the desired state in the spec of obj. obj is a private copy of the
	// cached object. obj includes every write of this process to the object, is not being deleted, and has the finalizer
	// that its kind needs. Reconcile may write the objects that obj owns. Of obj itself, Reconcile changes only the
	// status, in memory. The engine then writes the status if it has changed, even if Reconcile returned an error. After
	// an error that says nothing about the object, such as a conflict, the engine does not write the status.
	//
	// Reconcile must not depend on state in memory, because a restart loses this state. Reconcile must not block: to wait,
	// it returns a RequeueAfter or relies on an event.
	//
	// When Reconcile is called, Degraded is False, Stalled is absent, and the other conditions are as the last reconcile
	// set them. Reconcile sets the conditions with Summary.SetOn. The engine sets the times and generations of the
	// conditions. If Reconcile returns an error, the engine overwrites conditions: see Outcome.
	Reconcile(ctx context.Context, obj T) (Result, error)
}

// Finalizer declares the finalizer of a kind, and the function that deletes what garbage collection does not delete,
// such as a database on a server. Name and Finalize are required, unless the kind has no finalizer.
type Finalizer[T Object] struct {
	// Name is the finalizer of the objects, for example windlass.dev/externaldatabase.
	Name string
	// Needed reports whether an object that is not being deleted must have the finalizer. The engine adds or removes the
	// finalizer before it calls Reconcile. Nil means that all objects must have it.
	Needed func(obj T) bool
	// Finalize deletes the resources of an object that is being deleted. The engine calls Finalize with a private copy of
	// the object until the call returns no error and no RequeueAfter. The engine then removes the finalizer, without
	// another write of the status. Finalize may be called again after it has succeeded.
	Finalize func(ctx context.Context, obj T) (Result, error)
}

// Versioned identifies a version of an object.
type Versioned interface {
	GetUID() types.UID
	GetResourceVersion() string
}

// Client is the part of a generated client that the engine uses to read and write the objects of a
// kind.
type Client[T Object] interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error)
	UpdateStatus(ctx context.Context, obj T, opts metav1.UpdateOptions) (T, error)
	Patch(
		ctx context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string,
	) (T, error)
}

// ClientOf converts a method of a generated clientset to a value for the field Client of a Kind, for
// example ClientOf(clientset.WindlassV1alpha1().Apps).
func ClientOf[T Object, C Client[T]](generated func(namespace string) C) func(namespace string) Client[T] {
	return func(namespace string) Client[T] { return generated(namespace) }
}

// Lister is the part of a generated lister that the engine uses to read the objects of a kind from the cache.
type Lister[T Object] interface {
	// Get returns the cached object, which must not be changed. It returns NotFound for a missing object.
	Get(name string) (T, error)
}

// ListerOf converts a method of a generated lister to a value for the field Lister of a Kind, for example
// ListerOf(informers.Windlass().V1alpha1().Apps().Lister().Apps).
func ListerOf[T Object, L Lister[T]](generated func(namespace string) L) func(namespace string) Lister[T] {
	return func(namespace string) Lister[T] { return generated(namespace) }
}

// DiscardEvents is an EventRecorder that drops all Events.
type DiscardEvents struct{}

// Event implements EventRecorder.
func (DiscardEvents) Event(Object, string, string, string) {}

// EventRecorder records Events about transitions. Implementations do not block.
type EventRecorder interface {
	// Event records an Event about regarding. eventType is corev1.EventTypeNormal or
	// corev1.EventTypeWarning, reason an identifier in CamelCase, and note a sentence.
	Event(regarding Object, eventType, reason, note string)
}
