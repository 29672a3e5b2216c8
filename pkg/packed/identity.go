package packed

import (
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"windlass.dev/windlass/pkg/budget"
)

// ExceededError says that an object exceeds a limit of package budget, so that only its
// identity is cached. Where the limit is the budget of the namespace, the object can be cached
// later: see Refill.
type ExceededError struct {
	of        *Object
	size      int
	limit     *budget.Budget // nil if the object itself is too large
	transform cache.TransformFunc
	// refilled is what the cache returns instead since there was room.
	refilled atomic.Pointer[any]
}

// Error implements error.
func (e *ExceededError) Error() string {
	if e.limit == nil {
		return fmt.Sprintf("%s/%s has %d bytes, and at most %d are allowed", e.of.namespace, e.of.name, e.size, budget.Owned)
	}
	return fmt.Sprintf("%s/%s is not cached: the large objects of namespace %s exceed %d bytes together", e.of.namespace, e.of.name, e.of.namespace, budget.Namespace)
}

// Fits reports whether there is room for the object by now, so that it is worth reading.
func (e *ExceededError) Fits() bool {
	return e.limit != nil && e.limit.Fits(e.of.namespace, e.of.uid, e.size)
}

// Refill caches an object that was read from the API server since it fits by now. A version
// other than the one that the cache knows is ignored: an event brings it.
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

// ownGroups end the groups of Windlass' APIs, and ownDomains begin its annotations.
var (
	ownGroups  = []string{"windlass.dev", "cnat.programming-kubernetes.info"}
	ownDomains = []string{"windlass.dev/", "cnat.programming-kubernetes.info/"}
)

// isClaimed reports whether an object says that it was made here: an object of Windlass' APIs
// controls it, or one of their annotations is on it. Anyone can say so.
func isClaimed(object metav1.Object) bool {
	if owner := metav1.GetControllerOfNoCopy(object); owner != nil {
		group := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).Group
		for _, own := range ownGroups {
			if group == own {
				return true
			}
		}
		return false
	}
	for name := range object.GetAnnotations() {
		for _, own := range ownDomains {
			if strings.HasPrefix(name, own) {
				return true
			}
		}
	}
	return false
}

// exceeded returns an object of which a cache knows which it is, its version and controller.
func exceeded(whole Whole, why *ExceededError) *Object {
	o := newObject(whole)
	why.of, o.left = o, why
	return o
}

// identityOf returns an object of which a cache knows which it is, its version and controller,
// and whether it is being deleted.
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
