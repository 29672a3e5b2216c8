package controller

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// tombstones are the objects that this process has deleted, and that a cache may still have. Their
// deletion has no resource version to wait for: the response to a DELETE has none, and the response to
// a patch that removes the last finalizer has the version from before the patch.
type tombstones struct {
	mu  sync.Mutex
	all map[Key]map[string]types.UID
}

// add records that a reconcile of key has deleted an object. name is unique among the objects of the
// key. Only the last object of a name is remembered.
func (t *tombstones) add(key Key, name string, object types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all[key] == nil {
		t.all[key] = map[string]types.UID{}
	}
	t.all[key][name] = object
}

// IsDeleted reports whether Deleted was called for the object, which a cache may still have.
func (t *tombstones) IsDeleted(key Key, name string, object types.UID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all[key][name] == object && object != ""
}

func (t *tombstones) forget(key Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.all, key)
}
