// Package packed keeps what informers cache packed: an object takes some hundred bytes then,
// where what a decoder makes of it takes thousands. The objects of an operator are much
// alike, so each is stored as what sets it apart from a few of its type.
//
// A cache that is packed holds an *Object for each object, which client-go's stores and
// indexers take for one since it tells of its metadata. Generated listers do not: what
// reads such a cache calls Unpack.
package packed

import (
	"fmt"
	"strings"
	"sync/atomic"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Object is an object in a cache. What it tells never changes.
type Object struct {
	namespace, name string
	uid             types.UID
	version         string

	ownerKind unique.Handle[ownerKind] // zero without a controller
	ownerName string
	ownerUID  types.UID

	// packed is the object, without managed fields, as packing has it.
	packed  string
	packing *packing
	// whole is the object itself while it is among the latest.
	whole atomic.Pointer[Whole]
	// left is why only the identity of the object is there, or nil.
	left *ExceededError
}

type ownerKind struct{ apiVersion, kind string }

// Unpack returns the object, which is not changed: it may be the one that others get too. Of
// one that nobody here has made it returns the identity alone. Its error is an ExceededError
// for one that is too large to be cached.
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

// GetUID implements controller.Versioned, as GetResourceVersion does.
func (o *Object) GetUID() types.UID { return o.uid }

// GetResourceVersion is the version that was packed.
func (o *Object) GetResourceVersion() string { return o.version }

// GetObjectMeta implements metav1.ObjectMetaAccessor. It tells of name, version and
// controller, and of nothing else: whoever needs labels or annotations unpacks the object.
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

// newObject returns an Object that knows its metadata. All its strings are parts of one.
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
