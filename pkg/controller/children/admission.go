package children

import (
	"encoding/json"
	"hash/maphash"
)

// noteRewrite compares the response to a write with the desired state. If the API server has kept another value of a
// desired field, for example because of a mutating policy, noteRewrite remembers both values, and records a warning.
// After a dry run, noteRewrite does nothing.
func (t *Type[T]) noteRewrite(owner Owner, w desiredState[T], returned T) {
	if t.dryRun != nil {
		return
	}
	w.object, returned = withoutFixedData(w.object, returned)
	c, err := t.change(w, returned, t.first())
	if err != nil || c == nil {
		t.Tracker.ForgetRewrite(owner.key(), t.describe(returned))
		return
	}
	if token, ok := w.rewriteToken(c.differences, returned); ok {
		note := messageRewritten.Note(t.Kind, returned.GetNamespace()+"/"+returned.GetName(), c.fields())
		t.Tracker.RecordRewrite(owner.key(), t.describe(returned), token, note)
	}
}

// isRewritten reports whether the API server has kept the observed values of a child when the operator wrote the
// desired values. Another write would change nothing.
func (t *Type[T]) isRewritten(owner Owner, w desiredState[T], live T, c *change) bool {
	token, ok := w.rewriteToken(c.differences, live)
	return ok && t.Tracker.IsRewrite(owner.key(), t.describe(live), token)
}

// seed is the seed of all tokens of rewrites. A token has no meaning in another process.
var seed = maphash.MakeSeed()

// rewriteToken returns a token for a child, its desired state, and the observed values that differ. ok is false if the
// values cannot be marshaled.
func (w desiredState[T]) rewriteToken(differing []difference, live T) (token uint64, ok bool) {
	text, err := json.Marshal([]any{live.GetUID(), w.object, differing})
	if err != nil {
		return 0, false
	}
	return maphash.Bytes(seed, text), true
}
