// Package lenient decodes objects of Windlass' kinds. An object with values that its Go type cannot hold
// does not fail the list or the watch: the decoder omits these values and marks the object as unreadable
// (controller.Unreadable).
//
// The API server can store such objects. The pattern of a quantity in a CRD accepts more than
// resource.ParseQuantity, and an older version of the CRD can have accepted more than the present one. A
// quantity such as 1e-100000000 takes a minute of CPU time to parse.
package lenient

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"windlass.dev/windlass/pkg/cache/budget"
)

// Serializer returns a serializer like next whose decoders are lenient with the types in scheme. If limited
// is true, the decoders are for caches with a Transform: they omit the spec of an object larger than
// budget.Object.
func Serializer(next runtime.NegotiatedSerializer, scheme *runtime.Scheme, limited bool) runtime.NegotiatedSerializer {
	return &serializer{next, scheme, limited}
}

type serializer struct {
	runtime.NegotiatedSerializer
	scheme  *runtime.Scheme
	limited bool
}

// DecoderToVersion implements runtime.NegotiatedSerializer.
func (s *serializer) DecoderToVersion(next runtime.Decoder, gv runtime.GroupVersioner) runtime.Decoder {
	return &decoder{strict: s.NegotiatedSerializer.DecoderToVersion(next, gv), scheme: s.scheme, limits: s.limited}
}

// decoder decodes responses of the API server.
type decoder struct {
	strict runtime.Decoder
	scheme *runtime.Scheme
	limits bool
}

// Decode implements runtime.Decoder. It fails for data that is not an object of a type in the scheme.
func (d *decoder) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if into != nil && meta.IsListType(into) {
		return d.list(data, defaults, into)
	}
	if d.limits && len(data) > budget.Small {
		return d.limited(data, defaults, into)
	}
	return d.single(data, defaults, into)
}

// single decodes an object that is not a list.
func (d *decoder) single(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if isSlow(data) {
		return d.lenient(data, defaults, into, nil)
	}
	obj, kind, err := d.strict.Decode(data, defaults, into)
	if err != nil {
		return d.lenient(data, defaults, into, err)
	}
	unmark(obj)
	return obj, kind, nil
}

// list decodes the items of a list one by one.
func (d *decoder) list(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	var parts struct {
		APIVersion string            `json:"apiVersion"`
		Kind       string            `json:"kind"`
		Metadata   json.RawMessage   `json:"metadata,omitempty"`
		Items      []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(data, &parts); err != nil || len(parts.Items) == 0 {
		return d.strict.Decode(data, defaults, into)
	}
	items := parts.Items
	parts.Items = []json.RawMessage{}
	empty, err := json.Marshal(parts)
	if err != nil {
		return nil, nil, err
	}
	list, kind, err := d.strict.Decode(empty, defaults, into)
	if err != nil {
		return nil, kind, err
	}
	kindOfItems := schema.FromAPIVersionAndKind(parts.APIVersion, strings.TrimSuffix(parts.Kind, "List"))
	objects := make([]runtime.Object, len(items))
	for i, item := range items {
		if objects[i], _, err = d.Decode(item, &kindOfItems, nil); err != nil {
			return nil, kind, fmt.Errorf("decoding item %d of %s: %w", i, parts.Kind, err)
		}
	}
	return list, kind, meta.SetList(list, objects)
}

// unmark removes the annotations that decoders set, in case a user has set them.
func unmark(obj runtime.Object) {
	if accessor, err := meta.Accessor(obj); err == nil {
		delete(accessor.GetAnnotations(), mark)
		delete(accessor.GetAnnotations(), sizeAnnotation)
	}
}

// reset sets into to its zero value, because a decoder that fails may leave values in it.
func reset(into runtime.Object) {
	if value := reflect.ValueOf(into); value.Kind() == reflect.Pointer && !value.IsNil() {
		value.Elem().SetZero()
	}
}
