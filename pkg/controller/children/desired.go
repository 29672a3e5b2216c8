package children

import (
	"encoding/json"
	"reflect"
	"slices"

	"windlass.dev/windlass/pkg/controller"
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

// settle records that a merge of the desired state into this version of a child changed nothing, so that
// the merge is not repeated. isAsWanted cannot replace the merge if other clients have added items to a
// list, or if the child is a custom resource.
func (t *Type[T]) settle(owner Owner, w desiredState[T], live T) {
	if token, ok := w.tokenWith(live); ok {
		t.Tracker.RecordNoOp(owner.key(), t.place(owner, live), token)
	}
}

func (t *Type[T]) isSettled(owner Owner, w desiredState[T], live T) bool {
	token, ok := w.tokenWith(live)
	return ok && t.Tracker.IsNoOp(owner.key(), t.place(owner, live), token)
}

// place returns the name under which a Tracker records the no-op of a child.
func (t *Type[T]) place(owner Owner, child T) string {
	if child.GetName() == owner.GetName() {
		return t.Kind // the usual case, without an allocation
	}
	return t.Kind + "/" + child.GetName()
}

// tokenWith returns a token for the desired state and the version of a child. ok is false if the child has
// no version, or if the desired state cannot be marshaled. The merge then returns the error of marshaling.
func (w desiredState[T]) tokenWith(live T) (token uint64, ok bool) {
	text, err := json.Marshal(w.object)
	seen := controller.NewVersions()
	seen.Add(live, err)
	seen.AddText(text)
	return seen.Sum()
}
