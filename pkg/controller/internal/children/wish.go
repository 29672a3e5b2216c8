package children

import (
	"encoding/json"

	"windlass.dev/windlass/pkg/controller"
)

// wish is what is wanted of a child, and how it is written.
type wish[T Object] struct {
	object T
	text   []byte
	// record is what the child is to bear as RecordAnnotation. Fields are kept as they are
	// written, and not decoded: that is needed to merge a child, not to make one.
	record string
}

func (t *Type[T]) wishFor(want T) (wish[T], error) {
	text, err := json.Marshal(want)
	if err != nil {
		return wish[T]{}, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return wish[T]{}, err
	}
	delete(fields, "status")
	for _, field := range t.whole() {
		delete(fields, field)
	}
	record, err := json.Marshal(fields)
	return wish[T]{want, text, string(record)}, err
}

// settle remembers that a merge of what is wanted into a version of a child came to
// nothing: others have added to it, and a merge takes many times as long as finding out
// that neither has changed since.
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
// without a version.
func (w wish[T]) tokenWith(live T) (uint64, bool) {
	seen := controller.NewVersions()
	seen.Add(live, nil)
	seen.AddText(w.text)
	return seen.Sum()
}
