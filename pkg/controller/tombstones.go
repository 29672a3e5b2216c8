package controller

import "k8s.io/apimachinery/pkg/types"

// Deleted records that a reconcile of key has deleted an object, or removed the finalizer of the operator from an
// object that is being deleted. name is unique among the objects of the key. The Tracker remembers only the last object
// of each name.
//
// The Tracker cannot wait until a cache has observed the deletion, because no response has the resource version of the
// deletion. The response to a DELETE has no version. The response to a patch that removes the last finalizer has the
// version from before the patch.
func (t *Tracker) Deleted(key Key, name string, object types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.tracked(key)
	k.sends()
	if k.deleted == nil {
		k.deleted = map[string]types.UID{}
	}
	k.deleted[name] = object
}

// IsDeleted reports whether Deleted was called for an object. A cache may still have this object.
func (t *Tracker) IsDeleted(key Key, name string, object types.UID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return object != "" && t.tracked(key).deleted[name] == object
}
