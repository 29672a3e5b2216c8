package children

import (
	"encoding/json"
	"fmt"
	"hash/maphash"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// maxNamed is how many fields a warning about a child names.
const maxNamed = 3

// difference is a field of a child in which the observed value is not the desired value.
type difference struct {
	// Field is the path of the field, for example spec.template.spec.containers[0].image.
	Field             string
	Desired, Observed any
}

// differences returns the fields in which two JSON values differ. It compares list items by position, and lists of
// different lengths as a whole.
func differences(field string, desired, observed any) (found []difference) {
	switch want := desired.(type) {
	case map[string]any:
		is, ok := observed.(map[string]any)
		if !ok {
			break
		}
		names := slices.Collect(maps.Keys(want))
		for name := range is {
			if _, both := want[name]; !both {
				names = append(names, name)
			}
		}
		for _, name := range slices.Sorted(slices.Values(names)) {
			found = append(found, differences(member(field, name), want[name], is[name])...)
		}
		return found
	case []any:
		is, ok := observed.([]any)
		if !ok || len(is) != len(want) {
			break
		}
		for i := range want {
			found = append(found, differences(fmt.Sprintf("%s[%d]", field, i), want[i], is[i])...)
		}
		return found
	}
	if reflect.DeepEqual(desired, observed) {
		return nil
	}
	return []difference{{field, desired, observed}}
}

// member returns the path of a member of an object.
func member(field, name string) string {
	switch {
	case field == "":
		return name
	case strings.ContainsAny(name, "./"): // the key of a label or annotation
		return field + "[" + name + "]"
	default:
		return field + "." + name
	}
}

// noteRewrite compares the response to a write with the desired state. If the API server has kept another value of a
// desired field, for example because of a mutating policy, noteRewrite remembers both values, and records a warning.
func (t *Type[T]) noteRewrite(owner Owner, w desiredState[T], returned T) {
	w.object, returned = withoutFixedData(w.object, returned)
	c, err := t.change(w, returned, t.first())
	if err != nil || c == nil {
		t.Tracker.ForgetRewrite(owner.key(), t.describe(returned))
		return
	}
	if token, ok := w.tokenAmid(c.differences, returned); ok {
		note := messageRewritten.Note(t.Kind, returned.GetNamespace()+"/"+returned.GetName(), c.fields())
		t.Tracker.RecordRewrite(owner.key(), t.describe(returned), token, note)
	}
}

// isRewritten reports whether the API server has kept the observed values of a child when the operator wrote the
// desired values. Another write would change nothing.
func (t *Type[T]) isRewritten(owner Owner, w desiredState[T], live T, c *change) bool {
	token, ok := w.tokenAmid(c.differences, live)
	return ok && t.Tracker.IsRewrite(owner.key(), t.describe(live), token)
}

// seed is the seed of all tokens. A token has no meaning in another process.
var seed = maphash.MakeSeed()

// tokenAmid returns a token for a child, its desired state, and the observed values that differ. ok is false if the
// values cannot be marshaled.
func (w desiredState[T]) tokenAmid(differing []difference, live T) (token uint64, ok bool) {
	text, err := json.Marshal([]any{live.GetUID(), w.object, differing})
	if err != nil {
		return 0, false
	}
	return maphash.Bytes(seed, text), true
}

// fields returns the names of the fields that differ, without their values, which may be secret.
func (c *change) fields() string {
	names := make([]string, 0, maxNamed)
	for _, d := range c.differences[:min(maxNamed, len(c.differences))] {
		names = append(names, d.Field)
	}
	if more := len(c.differences) - len(names); more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names, ", "), more)
	}
	return strings.Join(names, ", ")
}
