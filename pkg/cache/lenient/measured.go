package lenient

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"

	"windlass.dev/windlass/pkg/cache/budget"
	"windlass.dev/windlass/pkg/controller"
)

// Measured returns a transform for informers that decode objects with a generated client. The transform
// removes managed fields and surplus owner references. If an object exceeds a limit of package budget, it
// also removes the spec and marks the object as unreadable. Transform costs less, but needs the decoder of
// this package.
func Measured(limit *budget.Budget) cache.TransformFunc {
	return func(obj any) (any, error) {
		object, err := meta.Accessor(obj)
		if err != nil || controller.UnreadableIn(object) != nil {
			return obj, nil // not an API object, or already marked
		}
		object.SetManagedFields(nil)
		object.SetOwnerReferences(budget.Owners(object.GetOwnerReferences()))
		data, err := json.Marshal(obj)
		if err != nil {
			return obj, err
		}
		size := len(data)
		if size > budget.Object {
			return withoutSpec(obj, object, tooLarge(size))
		}
		if size > budget.Small && !budget.Charge(limit, metaOf(object), object.GetNamespace(), object.GetUID(), size) {
			return withoutSpec(obj, object, budgetExceeded(size))
		}
		return obj, nil
	}
}
