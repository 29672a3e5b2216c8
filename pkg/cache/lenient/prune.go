package lenient

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Limits of quoted text in a message, in bytes.
const (
	maxPath  = 256
	maxValue = 64
)

var (
	quantityType = reflect.TypeFor[resource.Quantity]()
	unmarshaler  = reflect.TypeFor[json.Unmarshaler]()
)

// pruner removes from JSON the values that a Go type cannot hold.
type pruner struct {
	// first is the message about the first removed value: its field, the value and the error. count is the
	// number of removed values.
	first string
	count int
}

// prune returns raw without the values that type t cannot hold. ok is false if nothing is left.
func (p *pruner) prune(raw json.RawMessage, t reflect.Type, path string) (left json.RawMessage, ok bool) {
	if t.Kind() == reflect.Pointer {
		return p.prune(raw, t.Elem(), path)
	}
	switch {
	case bytes.Equal(raw, []byte("null")):
		return raw, true
	case t == quantityType:
		return p.check(raw, path, checkQuantity(strings.TrimSpace(strings.Trim(string(raw), `"`))))
	case reflect.PointerTo(t).Implements(unmarshaler):
		return p.leaf(raw, t, path)
	case t.Kind() == reflect.Struct:
		return p.object(raw, fieldsOf(t), nil, path)
	case t.Kind() == reflect.Map:
		return p.object(raw, nil, t.Elem(), path)
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		return p.list(raw, t.Elem(), path)
	default:
		return p.leaf(raw, t, path)
	}
}

func (p *pruner) leaf(raw json.RawMessage, t reflect.Type, path string) (json.RawMessage, bool) {
	if err := json.Unmarshal(raw, reflect.New(t).Interface()); err != nil {
		return p.check(raw, path, fmt.Errorf("expected %s", nameOf(t)))
	}
	return raw, true
}

// object prunes a JSON object. For a struct, fields has the types of the known fields, and object removes
// all other fields. For a map, fields is nil, and values is the type of the values.
func (p *pruner) object(raw json.RawMessage, fields map[string]reflect.Type, values reflect.Type, path string) (json.RawMessage, bool) {
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(raw, &parts); err != nil {
		return p.check(raw, path, fmt.Errorf("expected object"))
	}
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		t, inner := values, fmt.Sprintf("%s[%s]", path, name)
		if values == nil {
			t, inner = fields[name], strings.TrimPrefix(path+"."+name, ".")
		}
		if t == nil {
			delete(parts, name)
			continue
		}
		left, ok := p.prune(parts[name], t, inner)
		if !ok {
			delete(parts, name)
			continue
		}
		parts[name] = left
	}
	return p.encoded(raw, parts, path)
}

func (p *pruner) list(raw json.RawMessage, of reflect.Type, path string) (json.RawMessage, bool) {
	var parts []json.RawMessage
	if err := json.Unmarshal(raw, &parts); err != nil {
		return p.check(raw, path, fmt.Errorf("expected list"))
	}
	kept := []json.RawMessage{}
	for i, part := range parts {
		if left, ok := p.prune(part, of, fmt.Sprintf("%s[%d]", path, i)); ok {
			kept = append(kept, left)
		}
	}
	return p.encoded(raw, kept, path)
}

func (p *pruner) encoded(raw json.RawMessage, parts any, path string) (json.RawMessage, bool) {
	left, err := json.Marshal(parts)
	if err != nil {
		return p.check(raw, path, err)
	}
	return left, true
}

// check returns raw if wrong is nil. Otherwise, it counts raw as a removed value. If raw is the first removed value,
// check also records it with the error wrong.
func (p *pruner) check(raw json.RawMessage, path string, wrong error) (json.RawMessage, bool) {
	if wrong == nil {
		return raw, true
	}
	if p.count++; p.count == 1 {
		p.first = fmt.Sprintf("Field %s has the value %s, which cannot be read: %s.", cut(path, maxPath), cut(string(raw), maxValue), wrong)
	}
	return nil, false
}

// fieldsOf maps the JSON names of the fields of a struct to their types.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for i := range t.NumField() {
		field := t.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case field.Anonymous && name == "":
			maps.Copy(fields, fieldsOf(field.Type))
		case field.IsExported() && name != "" && name != "-":
			fields[name] = field.Type
		}
	}
	return fields
}

// nameOf returns the name by which messages refer to a type.
func nameOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "boolean"
	case reflect.String:
		return "string"
	case reflect.Struct, reflect.Map:
		return t.Name()
	case reflect.Slice:
		return "text in base64"
	default:
		return "integer of type " + t.Kind().String()
	}
}

// cut returns at most size bytes of text.
func cut(text string, size int) string {
	if len(text) > size {
		text = text[:size-3] + "..."
	}
	return strings.ToValidUTF8(text, "?")
}
