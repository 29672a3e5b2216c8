package controller_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/listers"
	"k8s.io/client-go/tools/cache"

	"windlass.dev/windlass/pkg/controller"
)

var toyResource = schema.GroupResource{Group: toyKind.Group, Resource: "toys"}

// toyServer is an API server for Toys, with the cache of an informer. Only deliver changes the cache.
type toyServer struct {
	t     testing.TB
	cache cache.Indexer

	mu        sync.Mutex
	revision  int
	stored    map[controller.Key]*Toy
	writes    []string // the writes of the engine, including rejected writes
	rejection error    // if it is set, the next write is not applied and returns this error
	lost      error    // if it is set, the next write is applied and returns this error
}

func newToyServer(t testing.TB) *toyServer {
	return &toyServer{
		t: t, cache: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}), stored: map[controller.Key]*Toy{},
	}
}

// create stores a Toy as the API server would.
func (s *toyServer) create(toy *Toy) {
	s.mu.Lock()
	defer s.mu.Unlock()
	toy = toy.copy()
	toy.Generation = 1
	s.store(toy)
	toy.UID = types.UID("uid-" + toy.ResourceVersion)
}

// edit changes a Toy as a user does. Every change increments the generation.
func (s *toyServer) edit(key controller.Key, change func(*Toy)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	toy := s.stored[key].copy()
	change(toy)
	toy.Generation++
	s.store(toy)
}

// delete deletes a Toy: it sets the deletion timestamp, and removes a Toy without finalizers.
func (s *toyServer) delete(key controller.Key) {
	s.edit(key, func(toy *Toy) { toy.DeletionTimestamp = &metav1.Time{Time: epoch} })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.collect(key)
}

// deliver brings the cache up to date.
func (s *toyServer) deliver() {
	s.mu.Lock()
	defer s.mu.Unlock()
	var toys []any
	for _, toy := range s.stored {
		toys = append(toys, toy.copy())
	}
	if err := s.cache.Replace(toys, strconv.Itoa(s.revision)); err != nil {
		s.t.Errorf("filling the cache: %v", err)
	}
}

// get returns a copy of the stored Toy, or nil.
func (s *toyServer) get(key controller.Key) *Toy {
	s.mu.Lock()
	defer s.mu.Unlock()
	if toy := s.stored[key]; toy != nil {
		return toy.copy()
	}
	return nil
}

// lister returns a lister like the listers of lister-gen.
func (s *toyServer) lister(namespace string) controller.Lister[*Toy] {
	return listers.NewNamespaced[*Toy](listers.New[*Toy](s.cache, toyResource), namespace)
}

// takeWrites returns the writes since its last call.
func (s *toyServer) takeWrites() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	writes := s.writes
	s.writes = nil
	return writes
}

func (s *toyServer) client(namespace string) controller.Client[*Toy] {
	return &toyClient{server: s, namespace: namespace}
}

// store stores toy with a new version. The callers of store and of collect hold the lock.
func (s *toyServer) store(toy *Toy) {
	s.revision++
	toy.ResourceVersion = strconv.Itoa(s.revision)
	s.stored[cache.MetaObjectToName(toy)] = toy
}

func (s *toyServer) collect(key controller.Key) {
	if toy := s.stored[key]; toy.DeletionTimestamp != nil && len(toy.Finalizers) == 0 {
		delete(s.stored, key)
		s.revision++
	}
}

// write applies a write to the stored Toy. apply changes the Toy, and returns the UID and resource version
// that are the precondition of the write.
func (s *toyServer) write(line string, key controller.Key, apply func(*Toy) (types.UID, string)) (*Toy, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes = append(s.writes, line)
	rejection, lost := s.rejection, s.lost
	s.rejection, s.lost = nil, nil
	if rejection != nil {
		return &Toy{}, rejection
	}
	before := s.stored[key]
	if before == nil {
		return &Toy{}, apierrors.NewNotFound(toyResource, key.Name)
	}
	after := before.copy()
	uid, version := apply(after)
	if uid != before.UID || version != before.ResourceVersion {
		return &Toy{}, apierrors.NewConflict(toyResource, key.Name, errors.New("the object has been modified"))
	}
	switch {
	case after.DeletionTimestamp != nil && len(after.Finalizers) == 0:
		s.stored[key] = after
		s.collect(key) // as from the API server, the response has the version from before the write
	case !equality.Semantic.DeepEqual(before, after):
		s.store(after)
	}
	return after.copy(), lost
}

// toyClient is a client for Toys like the clients of client-gen.
type toyClient struct {
	server    *toyServer
	namespace string
}

// Get returns a copy of the stored Toy, or NotFound.
func (c *toyClient) Get(_ context.Context, name string, _ metav1.GetOptions) (*Toy, error) {
	key := controller.Key{Namespace: c.namespace, Name: name}
	if toy := c.server.get(key); toy != nil {
		return toy, nil
	}
	return &Toy{}, apierrors.NewNotFound(toyResource, name)
}

func (c *toyClient) UpdateStatus(_ context.Context, toy *Toy, _ metav1.UpdateOptions) (*Toy, error) {
	key := controller.Key{Namespace: c.namespace, Name: toy.Name}
	return c.server.write("status "+key.String(), key, func(stored *Toy) (types.UID, string) {
		stored.Status = overTheWire(c.server.t, toy.Status)
		return toy.UID, toy.ResourceVersion
	})
}

func (c *toyClient) Patch(
	_ context.Context, name string, kind types.PatchType, data []byte, _ metav1.PatchOptions, subresources ...string,
) (*Toy, error) {
	key := controller.Key{Namespace: c.namespace, Name: name}
	var patch metav1.PartialObjectMetadata
	if err := json.Unmarshal(data, &patch); err != nil || kind != types.MergePatchType || len(subresources) > 0 {
		c.server.t.Errorf("unexpected patch %s %v %s: %v", kind, subresources, data, err)
	}
	return c.server.write(fmt.Sprintf("finalizers %s %v", key, patch.Finalizers), key,
		func(stored *Toy) (types.UID, string) {
			stored.Finalizers = patch.Finalizers
			return patch.UID, patch.ResourceVersion
		})
}

// overTheWire returns status after it was encoded as JSON and decoded again. Times lose their fractions of a
// second, and bytes that are not UTF-8 are replaced.
func overTheWire(t testing.TB, status ToyStatus) ToyStatus {
	var out ToyStatus
	data, err := json.Marshal(status)
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		t.Errorf("a status that is no JSON: %v", err)
	}
	return out
}
