// Package lenient decodes Windlass' own objects such that one that cannot be read spoils no
// list and no watch. What its type cannot take is left out, and the object is marked
// (controller.Unreadable), so that nobody takes it for what is stored.
//
// What the API server has stored may not be what the types of Go can take: a pattern in a CRD
// lets more pass than resource.ParseQuantity, an older CRD let pass what the present one
// refuses, and a quantity such as 1e-100000000 takes a minute of CPU time to parse.
package lenient

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"windlass.dev/windlass/pkg/budget"
)

// Serializer returns a serializer like next, whose decoders are lenient with the objects that
// scheme knows. If limited, they decode for caches that have a Transform, and leave out what
// exceeds a limit.
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

// decoder decodes what the API server says.
type decoder struct {
	strict runtime.Decoder
	scheme *runtime.Scheme
	limits bool
}

// Decode implements runtime.Decoder. It fails for what is no object of a known type.
func (d *decoder) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if into != nil && meta.IsListType(into) {
		return d.list(data, defaults, into)
	}
	if d.limits && len(data) > budget.Small {
		return d.limited(data, defaults, into)
	}
	return d.single(data, defaults, into)
}

// single decodes an object.
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

// list decodes a list object by object.
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
			return nil, kind, fmt.Errorf("decoding item %d of a %s: %w", i, parts.Kind, err)
		}
	}
	return list, kind, meta.SetList(list, objects)
}

// unmark takes marks off that a user has set.
func unmark(obj runtime.Object) {
	if accessor, err := meta.Accessor(obj); err == nil {
		delete(accessor.GetAnnotations(), mark)
		delete(accessor.GetAnnotations(), sizeAnnotation)
	}
}

// reset makes of into what it was before a decoder failed.
func reset(into runtime.Object) {
	if value := reflect.ValueOf(into); value.Kind() == reflect.Pointer && !value.IsNil() {
		value.Elem().SetZero()
	}
}
