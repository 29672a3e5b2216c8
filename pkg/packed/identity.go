package packed

import (
	"errors"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// errExceeded is why an object that may be ours is not in a cache.
var errExceeded = &ExceededError{}

// ExceededError says that an object exceeds a limit of package budget, so that only its
// identity is cached.
type ExceededError struct{}

// Error implements error.
func (*ExceededError) Error() string {
	return "it is too large, or the large objects of its namespace exceed their budget together"
}

// IsExceeded reports whether an error is an ExceededError.
func IsExceeded(err error) bool {
	exceeded := (*ExceededError)(nil)
	return errors.As(err, &exceeded)
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

// identityOf returns an object of which a cache knows which it is, its version and controller,
// and whether it is being deleted.
func identityOf(whole Whole, why error) (*Object, error) {
	o := newObject(whole)
	if o.left = why; why != nil {
		return o, nil
	}
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
