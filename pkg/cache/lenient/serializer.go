// Package lenient decodes objects of Windlass' kinds and of Gateway API. An object that its Go type cannot hold does
// not fail the list or the watch: the decoder returns the metadata and the status of the object, with a Mark.
//
// The schemas of Windlass' kinds reject such objects. An object that does not fit can be stored only while somebody has
// changed a CRD. The schemas of Gateway API accept times that the Go type rejects, such as 2026-01-01t00:00:00z.
package lenient

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Serializer returns a serializer like next whose decoders are lenient.
func Serializer(next runtime.NegotiatedSerializer) runtime.NegotiatedSerializer {
	return &serializer{next}
}

type serializer struct{ runtime.NegotiatedSerializer }

// DecoderToVersion implements runtime.NegotiatedSerializer.
func (s *serializer) DecoderToVersion(next runtime.Decoder, gv runtime.GroupVersioner) runtime.Decoder {
	return &decoder{s.NegotiatedSerializer.DecoderToVersion(next, gv)}
}

// decoder decodes responses of the API server.
type decoder struct{ strict runtime.Decoder }

// Decode implements runtime.Decoder. It fails for data that is not an object of a known type.
func (d *decoder) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (
	runtime.Object, *schema.GroupVersionKind, error,
) {
	if into != nil && meta.IsListType(into) {
		return d.list(data, defaults, into)
	}
	if fast, found := withoutSlowNumbers(data); found {
		if _, _, err := d.decode(fast, defaults, into); err != nil {
			return d.rescue(data, defaults, into, err)
		}
	}
	obj, kind, err := d.decode(data, defaults, into)
	if err != nil {
		return d.rescue(data, defaults, into, err)
	}
	return obj, kind, nil
}

// rescue decodes what the strict decoder cannot decode: the items of a list one by one, or the identity of an object.
// It recognizes a list by its items, because a shard lists without a type.
func (d *decoder) rescue(data []byte, defaults *schema.GroupVersionKind, into runtime.Object, cause error) (
	runtime.Object, *schema.GroupVersionKind, error,
) {
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	if into == nil && json.Unmarshal(data, &list) == nil && len(list.Items) > 0 {
		return d.list(data, defaults, nil)
	}
	return d.identity(data, defaults, into, cause)
}

// decode decodes with the strict decoder. It first clears into, because a decoder that fails leaves values in into.
func (d *decoder) decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (
	runtime.Object, *schema.GroupVersionKind, error,
) {
	if value := reflect.ValueOf(into); value.Kind() == reflect.Pointer && !value.IsNil() {
		value.Elem().SetZero()
	}
	return d.strict.Decode(data, defaults, into)
}

// list decodes the items of a list one by one.
func (d *decoder) list(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (
	runtime.Object, *schema.GroupVersionKind, error,
) {
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
