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
			t.Fatalf("filling a cache: %v", err)
		}
	}
}

// Store is a controller.Store that holds nothing but a resource version. The
// zero value has seen none.
type Store struct {
	mu      sync.Mutex
	version string
}

// Set makes version the newest that the store has seen.
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

// Pass is what became of a key.
type Pass struct {
	Key    controller.Key
	Result controller.Result
	Err    error
}

// tooMany passes in a row mean that a kind keeps itself busy for ever.
const tooMany = 10_000

// Drain gives the keys that wait in queue to sync, one after another in the
// queue's order, until none waits. It is a worker without retries: what a pass
// ends with is returned, and nothing follows from it.
func Drain(t testing.TB, queue *controller.Queue, sync controller.Sync) []Pass {
	t.Helper()
	var passes []Pass
	for queue.Len() > 0 {
		key, _ := queue.Get()
		result, err := sync(t.Context(), key)
		queue.Done(key)
		passes = append(passes, Pass{key, result, err})
		if len(passes) == tooMany {
			t.Fatalf("%s is still wanted after %d passes", key, tooMany)
		}
	}
	return passes
}
