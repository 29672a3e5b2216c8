package controllertest

import (
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"windlass.dev/windlass/pkg/controller"
)

// Load puts copies of objects into a cache, as an informer's watch would.
func Load[T runtime.Object](t testing.TB, store cache.Store, objects ...T) {
	t.Helper()
	for _, object := range objects {
		if err := store.Add(object.DeepCopyObject()); err != nil {
			t.Fatalf("adding an object to a cache: %v", err)
		}
	}
}

// Store is a controller.Store that has only a resource version. The zero value has observed no version.
type Store struct {
	mu      sync.Mutex
	version string
}

// Set sets the newest resource version that the store has observed.
func (s *Store) Set(version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version = version
}

// LastStoreSyncResourceVersion implements controller.Store.
func (s *Store) LastStoreSyncResourceVersion() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// Reconciled is the result of one reconcile of a key.
type Reconciled struct {
	Key    controller.Key
	Result controller.Result
	Err    error
}

// tooMany is the number of reconciles after which Drain assumes a hot loop.
const tooMany = 10_000

// Drain calls sync for the keys in queue, one after another in the order of the queue, until the queue is
// empty. It returns the result of each call. Unlike a worker, it does not act on the results.
func Drain(t testing.TB, queue *controller.Queue, sync controller.SyncHandler) []Reconciled {
	t.Helper()
	var reconciles []Reconciled
	for queue.Len() > 0 {
		key, _ := queue.Get()
		result, err := sync(t.Context(), key)
		queue.Done(key)
		reconciles = append(reconciles, Reconciled{key, result, err})
		if len(reconciles) == tooMany {
			t.Fatalf("the queue still has %s after %d reconciles", key, tooMany)
		}
	}
	return reconciles
}
