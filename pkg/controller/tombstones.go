package controller

import "k8s.io/apimachinery/pkg/types"

// Deleted records that a reconcile of key has deleted an object, or removed the finalizer that held
// it. name is unique among the objects of the key. Only the last object of a name is remembered.
//
// The deletion has no resource version to wait for: the response to a DELETE has none, and the response to
// a patch that removes the last finalizer has the version from before the patch.
func (t *Tracker) Deleted(key Key, name string, object types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.of(key)
	k.sends()
	if k.deleted == nil {
		k.deleted = map[string]types.UID{}
	}
	k.deleted[name] = object
}

// IsDeleted reports whether Deleted was called for the object, which a cache may still have.
func (t *Tracker) IsDeleted(key Key, name string, object types.UID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return object != "" && t.of(key).deleted[name] == object
}
