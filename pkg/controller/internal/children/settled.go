package children

import (
	"encoding/json"

	"windlass.dev/windlass/pkg/controller"
)

// A comparison of a child with what is wanted takes many times as long as finding out that
// neither has changed since the last, which is so in almost all passes: an owner has
// several children, and an event is about one of them.

// kept is want, changed, with what the live child may not lose.
func (t *Type[T]) kept(want, live T) T {
	if t.Keep != nil {
		t.Keep(want, live)
	}
	return want
}

// settle remembers that a version of a child is what is wanted.
func (t *Type[T]) settle(owner Owner, want, live T) {
	if token, ok := tokenOf(want, live); ok {
		t.Guard.Settle(owner.key(), t.place(owner, live), token)
	}
}

func (t *Type[T]) isSettled(owner Owner, want, live T) bool {
	token, ok := tokenOf(want, live)
	return ok && t.Guard.IsSettled(owner.key(), t.place(owner, live), token)
}

// place names a child among those of its owner.
func (t *Type[T]) place(owner Owner, child T) string {
	if child.GetName() == owner.GetName() {
		return t.Kind // as almost all do; it takes no memory
	}
	return t.Kind + "/" + child.GetName()
}

// tokenOf tells of what is wanted of which version of a child. There is none for a child
// without a version, nor for what cannot be written, which a comparison says.
func tokenOf[T Object](want, live T) (uint64, bool) {
	text, err := json.Marshal(want)
	seen := controller.NewVersions()
	seen.Add(live, err)
	seen.AddText(text)
	return seen.Sum()
}
