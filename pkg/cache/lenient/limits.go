package lenient

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"windlass.dev/windlass/pkg/cache/budget"
	"windlass.dev/windlass/pkg/controller"
)

// Reasons of the condition Stalled of an object that exceeds a limit.
const (
	ReasonTooLarge       = "TooLarge"
	ReasonBudgetExceeded = "NamespaceBudgetExceeded"
)

// sizeAnnotation passes the size of an object larger than budget.Small from the decoder to Transform, which
// removes the annotation.
const sizeAnnotation = "windlass.dev/size"

// perObject estimates how many bytes a decoded JSON object takes in memory in addition to its text. For
// example, a Volume of a few characters becomes a struct with a pointer for each source.
const perObject = 128

// ownDomains are the prefixes of the annotations that the operator reads: the API groups of Windlass.
var ownDomains = []string{"windlass.dev/", "cnat.programming-kubernetes.info/"}

// limited decodes an object for a cache. If the object is larger than budget.Object, limited omits the spec
// and marks the object as unreadable.
func (d *decoder) limited(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	parts, t, err := d.take(data, defaults, into)
	if err != nil {
		return d.single(data, defaults, into)
	}
	metadata := parts.metadata()
	size := len(data) - len(metadata.ManagedFields)
	if size <= budget.Object {
		obj, kind, err := d.single(data, defaults, into)
		if size <= budget.Small || err != nil {
			return obj, kind, err
		}
		object, accessErr := meta.Accessor(obj)
		if kept := metadata.kept(data); accessErr == nil && kept > budget.Small {
			metav1.SetMetaDataAnnotation(metaOf(object), sizeAnnotation, strconv.Itoa(kept))
		}
		return obj, kind, nil
	}
	obj, kind, err := d.strict.Decode(parts.identity(t, data), defaults, into)
	if err != nil {
		return nil, nil, err
	}
	object, err := meta.Accessor(obj)
	if err != nil {
		return obj, kind, nil // not an API object, but for example a Status
	}
	unmark(obj)
	shrink(object)
	return obj, kind, tooLarge(size).Mark(object)
}

// tooLarge returns the mark of an object with size bytes, which exceeds budget.Object.
func tooLarge(size int) *controller.Unreadable {
	return &controller.Unreadable{Reason: ReasonTooLarge, Identity: true, Stored: true, Message: messageTooLarge.With(size, budget.Object)}
}

// budgetExceeded returns the mark of an object with size bytes, for which the budget of its namespace has no
// room.
func budgetExceeded(size int) *controller.Unreadable {
	return &controller.Unreadable{Reason: ReasonBudgetExceeded, Identity: true, Stored: true, Size: size, Message: messageBudgetExceeded.With(budget.Namespace)}
}

// withoutSpec removes the spec of an object and marks the object as unreadable.
func withoutSpec(obj any, object metav1.Object, why *controller.Unreadable) (any, error) {
	if value := reflect.Indirect(reflect.ValueOf(obj)); value.Kind() == reflect.Struct && value.FieldByName("Spec").CanSet() {
		value.FieldByName("Spec").SetZero()
	}
	shrink(object)
	return obj, why.Mark(object)
}

// metadata has the fields that Transform may remove from an object.
type metadata struct {
	ManagedFields json.RawMessage   `json:"managedFields"`
	Annotations   map[string]string `json:"annotations"`
}

func (p *parts) metadata() (m metadata) {
	if json.Unmarshal(p.Metadata, &m) != nil {
		return metadata{}
	}
	return m
}

// kept estimates how many bytes an object takes in a cache, without the fields that Transform removes.
func (m metadata) kept(data []byte) int {
	size := len(data) - len(m.ManagedFields)
	braces := bytes.Count(data, []byte("{")) - bytes.Count(m.ManagedFields, []byte("{"))
	for name, value := range m.Annotations {
		if len(ownAnnotations(map[string]string{name: value}, budget.Object)) == 0 {
			size, braces = size-len(value), braces-strings.Count(value, "{")
		}
	}
	return size + perObject*max(0, braces)
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

// shrink removes labels, managed fields and owners other than the controller. It keeps at most
// maxFinalizers finalizers, and the short annotations that the operator reads.
func shrink(object metav1.Object) {
	object.SetAnnotations(ownAnnotations(object.GetAnnotations(), 4*maxPath))
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
}

// maxFinalizers limits the finalizers that are cached for an object without its spec.
const maxFinalizers = 64

// ownAnnotations returns the annotations that the operator reads and whose values have at most longest
// bytes. Other annotations can be large: kubectl apply stores a copy of the object.
func ownAnnotations(annotations map[string]string, longest int) map[string]string {
	var own map[string]string
	for name, value := range annotations {
		for _, domain := range ownDomains {
			if strings.HasPrefix(name, domain) && len(value) <= longest {
				if own == nil {
					own = map[string]string{}
				}
				own[name] = value
			}
		}
	}
	return own
}

// Transform returns a transform for informers whose objects a limited Serializer decodes. The transform
// removes managed fields, surplus owner references, and the annotations that the operator does not read. If
// an object exceeds the budget of its namespace, it also removes the spec and marks the object as
// unreadable.
func Transform(of *budget.Budget) cache.TransformFunc {
	return func(obj any) (any, error) {
		object, err := meta.Accessor(obj)
		if err != nil {
			return obj, nil
		}
		object.SetManagedFields(nil)
		object.SetOwnerReferences(budget.Owners(object.GetOwnerReferences()))
		annotations := object.GetAnnotations()
		text, counts := annotations[sizeAnnotation]
		delete(annotations, sizeAnnotation)
		object.SetAnnotations(ownAnnotations(annotations, budget.Object))
		size, err := strconv.Atoi(text)
		if !counts || err != nil || budget.Charge(of, metaOf(object), object.GetNamespace(), object.GetUID(), size) {
			return obj, nil
		}
		return withoutSpec(obj, object, budgetExceeded(size))
	}
}
