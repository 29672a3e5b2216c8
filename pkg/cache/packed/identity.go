package packed

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"windlass.dev/windlass/pkg/cache/budget"
)

// ExceededError says that an object exceeds a limit of package budget, so only its identity is cached. If
// the limit is the budget of the namespace, Refill can cache the object later.
type ExceededError struct {
	of        *Object
	size      int
	limit     *budget.Budget // nil if the object itself is too large
	transform cache.TransformFunc
	// refilled is the object that Refill has cached.
	refilled atomic.Pointer[any]
}

// Error implements error.
func (e *ExceededError) Error() string {
	if e.limit == nil {
		return fmt.Sprintf("%s/%s has %d bytes, and at most %d are allowed; make it smaller",
			e.of.namespace, e.of.name, e.size, budget.Owned)
	}
	return fmt.Sprintf("%s/%s is not cached, because the large objects of namespace %s have more than %d bytes in "+
		"total; make some of these objects smaller", e.of.namespace, e.of.name, e.of.namespace, budget.Namespace)
}

// Fits reports whether the budget has room for the object now.
func (e *ExceededError) Fits() bool {
	return e.limit != nil && e.limit.Fits(e.of.namespace, e.of.uid, e.size)
}

// Refill caches an object that the caller has read from the API server, if the budget has room for the object. It
// ignores an object whose version is not the cached version, because an event for the other version follows.
func (e *ExceededError) Refill(live Whole) error {
	if live.GetUID() != e.of.uid || live.GetResourceVersion() != e.of.version {
		return nil
	}
	cached, err := e.transform(live.DeepCopyObject())
	if err != nil {
		return err
	}
	if o, ok := cached.(*Object); !ok || o.left == nil {
		e.refilled.Store(&cached)
	}
	return nil
}

func (e *ExceededError) unpack() (Whole, error) {
	cached := e.refilled.Load()
	if cached == nil {
		return nil, e
	}
	if o, ok := (*cached).(*Object); ok {
		return o.Unpack()
	}
	return (*cached).(Whole), nil
}

// isClaimed reports whether the API group of an object's controller is in groups. For an object without a
// controller, it reports whether the prefix of an annotation is in groups. Users can set both.
func isClaimed(object metav1.Object, groups []string) bool {
	if owner := metav1.GetControllerOfNoCopy(object); owner != nil {
		return slices.Contains(groups, schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).Group)
	}
	for name := range object.GetAnnotations() {
		if group, _, ok := strings.Cut(name, "/"); ok && slices.Contains(groups, group) {
			return true
		}
	}
	return false
}

// exceeded returns an Object that has only the identity of whole. Its Unpack returns the error why until
// Refill has cached the object.
func exceeded(whole Whole, why *ExceededError) *Object {
	o := newObject(whole)
	why.of, o.left = o, why
	return o
}

// identityOf returns an Object with only the identity, version, controller and deletionTimestamp of whole.
func identityOf(whole Whole) (*Object, error) {
	o := newObject(whole)
	bare := reflect.New(reflect.TypeOf(whole).Elem()).Interface().(Whole)
	known := o.GetObjectMeta()
	bare.SetNamespace(known.GetNamespace())
	bare.SetName(known.GetName())
	bare.SetUID(known.GetUID())
	bare.SetResourceVersion(known.GetResourceVersion())
	bare.SetOwnerReferences(known.GetOwnerReferences())
	bare.SetDeletionTimestamp(whole.GetDeletionTimestamp())
	data, err := bare.Marshal()
	if err != nil {
		return nil, err
	}
	o.packing = &packing{of: reflect.TypeOf(whole).Elem()}
	o.packed = string(o.packing.encode(nil, data))
	return o, nil
}
