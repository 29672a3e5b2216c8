package kindtest

import (
	"reflect"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/kinds"
)

// Declare is a function that declares a kind for a cluster.
type Declare[T controller.Object] func(kinds.Cluster, controller.Runtime) (controller.Kind[T], error)

// Fixture reconciles one object of a kind in a Cluster.
type Fixture[T controller.Object] struct {
	*Cluster
	// Key is the key of the object.
	Key controller.Key
	// Pipeline is the pipeline of the kind. It remembers previous reconciles until Restart.
	Pipeline *controller.Pipeline[T]

	declare Declare[T]
}

// New returns a Fixture for object in a cluster that also has the objects others. The caches are empty.
func New[T controller.Object](t testing.TB, declare Declare[T], object T, others ...runtime.Object) *Fixture[T] {
	t.Helper()
	f := &Fixture[T]{
		Cluster: NewCluster(t, append([]runtime.Object{object}, others...)...),
		Key:     cache.MetaObjectToName(object),
		declare: declare,
	}
	f.Restart()
	return f
}

// Restart simulates a restart of the process: the caches are empty, and no previous reconcile is remembered.
func (f *Fixture[T]) Restart() {
	f.T.Helper()
	f.Cluster.Restart()
	kind, err := f.declare(f.Cluster.Cluster, f.Runtime())
	if err != nil {
		f.T.Fatalf("declaring the kind: %v", err)
	}
	f.Pipeline = kind.Pipeline(f.Runtime())
}

// Reconciled is the result of one reconcile, with its requests and Events.
type Reconciled struct {
	Result controller.Result
	Err    error
	// Reads, Writes and Events are the lines of Cluster.Journal and Cluster.Events that the reconcile added.
	Reads, Writes, Events []string
}

// Reconcile reconciles the object once, with caches that hold all stored objects.
func (f *Fixture[T]) Reconcile() Reconciled {
	f.T.Helper()
	f.Observe()
	return f.ReconcileAsCached()
}

// ReconcileAsCached reconciles the object once, with the caches as they are.
func (f *Fixture[T]) ReconcileAsCached() (r Reconciled) {
	f.T.Helper()
	reads, writes, events := len(f.Journal.Reads()), len(f.Journal.Writes()), len(f.Events.Events())
	r.Result, r.Err = f.Pipeline.Sync(f.T.Context(), f.Key)
	r.Reads, r.Writes, r.Events = f.Journal.Reads()[reads:], f.Journal.Writes()[writes:], f.Events.Events()[events:]
	return r
}

// Object returns the stored object, or nil if there is none.
func (f *Fixture[T]) Object() T {
	f.T.Helper()
	return Get[T](f.Cluster, f.Key.Namespace, f.Key.Name)
}

// Change changes the stored object as a user does.
func (f *Fixture[T]) Change(change func(T)) {
	f.T.Helper()
	Change(f.Cluster, f.Key.Namespace, f.Key.Name, change)
}

// Get returns a copy of a stored object, or nil if there is none.
func Get[T runtime.Object](c *Cluster, namespace, name string) (object T) {
	c.T.Helper()
	tracker, resource := c.stored(reflect.New(reflect.TypeFor[T]().Elem()).Interface().(runtime.Object))
	stored, err := tracker.Get(resource, namespace, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return object
	}
	if err != nil {
		c.T.Fatalf("reading %s %s/%s: %v", resource.Resource, namespace, name, err)
	}
	return stored.DeepCopyObject().(T)
}

// Change changes a stored object as other clients and controllers do: see Cluster.Store.
func Change[T runtime.Object](c *Cluster, namespace, name string, change func(T)) {
	c.T.Helper()
	object := Get[T](c, namespace, name)
	change(object)
	c.Store(object)
}
