package lenient

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"windlass.dev/windlass/pkg/cache/budget"
)

// perObject estimates how many bytes a decoded JSON object takes in memory in addition to its text. For
// example, a Volume of a few characters becomes a struct with a pointer for each source.
const perObject = 128

// Limits of what is cached of an object without its spec.
const (
	maxFinalizers = 64
	maxAnnotation = 1 << 10 // bytes
)

// Transform returns a transform for informers. It removes managed fields and surplus owner references. If domains are
// given, it also removes annotations of other domains, because they can be large: kubectl apply stores a copy of the
// object in an annotation. If an object exceeds a limit of package budget, the transform removes the spec and marks the
// object as unreadable.
func Transform(limit *budget.Budget, domains ...string) cache.TransformFunc {
	return func(obj any) (any, error) {
		object, err := meta.Accessor(obj)
		if err != nil {
			return obj, nil // not an API object
		}
		if mark := MarkOn(object); mark != nil {
			return withoutSpec(obj, object, *mark)
		}
		object.SetManagedFields(nil)
		object.SetOwnerReferences(budget.Owners(object.GetOwnerReferences()))
		if len(domains) > 0 {
			keepAnnotations(object, func(name, _ string) bool {
				return slices.ContainsFunc(domains, func(d string) bool { return strings.HasPrefix(name, d+"/") })
			})
		}
		data, err := json.Marshal(obj)
		if err != nil {
			return obj, err
		}
		if len(data) > budget.Object {
			return withoutSpec(obj, object, Mark{Reason: ReasonTooLarge, Size: len(data), Limit: budget.Object})
		}
		size := len(data) + perObject*bytes.Count(data, []byte("{"))
		if len(data) > budget.Small && !budget.Charge(limit, metaOf(object), object.GetNamespace(), object.GetUID(), size) {
			return withoutSpec(obj, object, Mark{Reason: ReasonBudgetExceeded, Size: size, Limit: budget.Namespace})
		}
		return obj, nil
	}
}

// withoutSpec removes from an object its spec, labels, managed fields, owners other than the controller, long
// annotations and surplus finalizers, and marks the object as unreadable.
func withoutSpec(obj any, object metav1.Object, mark Mark) (any, error) {
	value := reflect.Indirect(reflect.ValueOf(obj))
	if value.Kind() == reflect.Struct && value.FieldByName("Spec").CanSet() {
		value.FieldByName("Spec").SetZero()
	}
	keepAnnotations(object, func(_, value string) bool { return len(value) <= maxAnnotation })
	object.SetLabels(nil)
	object.SetManagedFields(nil)
	var owners []metav1.OwnerReference
	if owner := metav1.GetControllerOfNoCopy(object); owner != nil {
		owners = []metav1.OwnerReference{*owner}
	}
	object.SetOwnerReferences(owners)
	if finalizers := object.GetFinalizers(); len(finalizers) > maxFinalizers {
		object.SetFinalizers(finalizers[:maxFinalizers])
	}
	return obj, mark.SetOn(object)
}

// keepAnnotations removes the annotations for which keep returns false.
func keepAnnotations(object metav1.Object, keep func(name, value string) bool) {
	annotations := object.GetAnnotations()
	maps.DeleteFunc(annotations, func(name, value string) bool { return !keep(name, value) })
	if len(annotations) == 0 {
		object.SetAnnotations(nil) // an empty map takes memory
	}
}

// metaOf returns the ObjectMeta of an object, or an empty one if the object has none.
func metaOf(object metav1.Object) *metav1.ObjectMeta {
	if m, ok := object.(metav1.ObjectMetaAccessor); ok {
		if m, ok := m.GetObjectMeta().(*metav1.ObjectMeta); ok {
			return m
		}
	}
	return &metav1.ObjectMeta{}
}
