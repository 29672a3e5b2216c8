package children

import (
	"encoding/json"
	"reflect"
	"slices"

	"windlass.dev/windlass/pkg/controller"
)

// wish is what is wanted of a child.
type wish[T Object] struct {
	object T
	// record is what the child is to bear as RecordAnnotation.
	record string
}

// wishFor writes the record of what is wanted: all but the status and what is wholly the
// owner's. An object is written part by part, which is what keeps those out of it.
func (t *Type[T]) wishFor(want T) (wish[T], error) {
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
	return wish[T]{want, string(record)}, err
}

// records tells whether a part of an object is recorded: not its kind and API version.
func (t *Type[T]) records(p part) bool {
	return p.name != "" && p.name != "status" && !slices.Contains(t.whole(), p.name)
}

// settle remembers that a merge of what is wanted into a version of a child came to
// nothing: others have added to it, or it is a custom resource. A merge takes many times as
// long as finding out that neither has changed since.
func (t *Type[T]) settle(owner Owner, w wish[T], live T) {
	if token, ok := w.tokenWith(live); ok {
		t.Guard.Settle(owner.key(), t.place(owner, live), token)
	}
}

func (t *Type[T]) isSettled(owner Owner, w wish[T], live T) bool {
	token, ok := w.tokenWith(live)
	return ok && t.Guard.IsSettled(owner.key(), t.place(owner, live), token)
}

// place names a child among those of its owner.
func (t *Type[T]) place(owner Owner, child T) string {
	if child.GetName() == owner.GetName() {
		return t.Kind // as almost all do; it takes no memory
	}
	return t.Kind + "/" + child.GetName()
}

// tokenWith tells of what is wanted of which version of a child. There is none for a child
// without a version, nor for what cannot be written, which a merge says.
func (w wish[T]) tokenWith(live T) (uint64, bool) {
	text, err := json.Marshal(w.object)
	seen := controller.NewVersions()
	seen.Add(live, err)
	seen.AddText(text)
	return seen.Sum()
}
