// Package packed compresses the objects in the caches of informers. A packed object takes hundreds of bytes
// instead of thousands. The objects that an operator creates are similar, so each is compressed with a
// dictionary of a few other objects of its type.
//
// NewFactory returns the informers. Their caches hold packed objects. An Indexer in front of each cache unpacks
// the objects that callers read, so that generated listers work.
package packed

import (
	"fmt"
	"strings"
	"sync/atomic"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Object is a packed object. It is safe for concurrent use.
type Object struct {
	namespace, name string
	uid             types.UID
	version         string

	ownerKind unique.Handle[ownerKind] // zero if the object has no controller
	ownerName string
	ownerUID  types.UID

	// packed is the object without managed fields, encoded by packing.
	packed  string
	packing *packing
	// whole is the unpacked object. It is nil unless this Object is among the latest of its type.
	whole atomic.Pointer[Whole]
	// left is not nil if the object exceeds a limit, so only its identity is cached.
	left *ExceededError
}

type ownerKind struct{ apiVersion, kind string }

// Unpack returns the object. Callers must not change it, because other callers may get the same object. If
// the operator did not create the object, Unpack returns only its identity. If the object exceeds a limit,
// Unpack returns an ExceededError until Refill has cached the object.
func (o *Object) Unpack() (Whole, error) {
	if o.left != nil {
		return o.left.unpack()
	}
	if whole := o.whole.Load(); whole != nil {
		return *whole, nil
	}
	whole, err := o.packing.unpack(o.packed)
	if err != nil {
		return nil, fmt.Errorf("unpacking %s/%s: %w", o.namespace, o.name, err)
	}
	return whole, nil
}

// GetUID and GetResourceVersion implement controller.Versioned.
func (o *Object) GetUID() types.UID { return o.uid }

// GetResourceVersion returns the version of the packed object.
func (o *Object) GetResourceVersion() string { return o.version }

// GetObjectMeta implements metav1.ObjectMetaAccessor. The result has namespace, name, UID, resource
// version and controller. Call Unpack for labels and annotations.
func (o *Object) GetObjectMeta() metav1.Object {
	known := &metav1.ObjectMeta{Namespace: o.namespace, Name: o.name, UID: o.uid, ResourceVersion: o.version}
	if o.ownerKind != (unique.Handle[ownerKind]{}) {
		yes, kind := true, o.ownerKind.Value()
		known.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: kind.apiVersion, Kind: kind.kind, Name: o.ownerName, UID: o.ownerUID, Controller: &yes,
		}}
	}
	return known
}

// newObject returns an Object with the metadata of another object. Its strings share one allocation.
func newObject(of metav1.Object) *Object {
	parts := []string{of.GetNamespace(), of.GetName(), string(of.GetUID()), of.GetResourceVersion(), "", ""}
	o := &Object{}
	if owner := metav1.GetControllerOfNoCopy(of); owner != nil {
		o.ownerKind = unique.Make(ownerKind{owner.APIVersion, owner.Kind})
		parts[4], parts[5] = owner.Name, string(owner.UID)
	}
	all := strings.Join(parts, "")
	for i, part := range parts {
		parts[i], all = all[:len(part)], all[len(part):]
	}
	o.namespace, o.name, o.uid, o.version = parts[0], parts[1], types.UID(parts[2]), parts[3]
	o.ownerName, o.ownerUID = parts[4], types.UID(parts[5])
	return o
}
