package children

import (
	"encoding/json"
	"reflect"
	"slices"
)

// desiredState is the desired state of a child.
type desiredState[T Object] struct {
	object T
	// record is the value of RecordAnnotation.
	record string
}

// desiredStateOf returns want with its record. The record has the fields for which records returns true. A
// record of more than maxRecord bytes is shortened.
func (t *Type[T]) desiredStateOf(want T) (desiredState[T], error) {
	object, recorded := reflect.ValueOf(want).Elem(), map[string]any{}
	for _, p := range shapeOf(object.Type()).parts {
		if value := object.Field(p.index); t.records(p) && !p.isOmitted(value) {
			recorded[p.name] = value.Addr().Interface()
		}
	}
	record, err := json.Marshal(recorded)
	if err == nil && len(record) > maxRecord {
		record, err = shortened(want, record)
	}
	return desiredState[T]{want, string(record)}, err
}

// records reports whether a field is in the record: not the kind, the API version, the status, or a field
// that belongs to the owner as a whole.
func (t *Type[T]) records(p part) bool {
	return p.name != "" && p.name != "status" && !slices.Contains(t.whole(), p.name)
}

// place returns the name under which a Tracker records that the API server keeps other values in a child.
func (t *Type[T]) place(owner Owner, child T) string {
	if child.GetName() == owner.GetName() {
		return t.Kind // the usual case, without an allocation
	}
	return t.Kind + "/" + child.GetName()
}
