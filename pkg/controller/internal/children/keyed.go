package children

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// keyedList is a list whose items a strategic merge knows by one field, the merge key.
type keyedList struct {
	schema strategicpatch.LookupPatchMeta // of an item
	path   []step                         // to the object that holds the list
	field  string
	key    string
}

// Ports are told apart by their protocol too, which the merge key of their lists leaves out
// (https://github.com/kubernetes/kubernetes/issues/39188), and no two may have one name.
const portsField, protocolField, defaultProtocol, portNameField = "ports", "protocol", "TCP", "name"

// identity tells an item from all others that the API server accepts beside it.
func (l keyedList) identity(item map[string]any) [2]any {
	if l.field != portsField {
		return [2]any{item[l.key]}
	}
	protocol := item[protocolField]
	if protocol == nil {
		protocol = defaultProtocol
	}
	return [2]any{item[l.key], protocol}
}

// division is what becomes of the items of a list that a live object has.
type division struct {
	// gone are those to take out by their merge keys.
	gone []map[string]any
	// ambiguous says that others have a merge key of ours, or of one another. rest are the
	// items without those, and aside those of them that stay, at the places that they have.
	ambiguous bool
	rest      []any
	aside     []placed
}

type placed struct {
	at   int
	item any
}

// divide decides what becomes of the items that are there. What others have added stays. An
// item goes that is a duplicate of ours, a port with the name of ours, or what we wanted before
// under another key; and one that has lost its key, with which there is no merge. A list that is
// wanted with one key twice is left to the merge.
func (l keyedList) divide(before, wanted, there []any) division {
	d := division{rest: there}
	keys, is := l.count(wanted), l.count(there)
	if len(keys) < len(wanted) {
		return d
	}
	ours, taken, missing := l.match(before, wanted, there)
	d.rest = nil
	for i, item := range itemsOf(there) {
		goes := !ours[i] && (is[item[l.key]] == 0 || taken(item))
		if !ours[i] && !goes && keys[item[l.key]] == 0 {
			if n := l.renamed(missing, item); n >= 0 {
				missing, goes = slices.Delete(missing, n, n+1), true
			}
		}
		if n := is[item[l.key]]; ours[i] || n == 1 && keys[item[l.key]] == 0 {
			d.rest = append(d.rest, item)
			if goes {
				d.gone = append(d.gone, item)
			}
			continue
		}
		d.ambiguous = true
		if !goes {
			d.aside = append(d.aside, placed{i, item})
		}
	}
	return d
}

// match tells which of the items that are there are ours, whether one that is not has what
// only ours may have, and which of ours are missing, though they were wanted before.
func (l keyedList) match(before, wanted, there []any) (ours map[int]bool, taken func(item map[string]any) bool, missing []map[string]any) {
	ours = map[int]bool{}
	at, was, identities, names := map[[2]any]int{}, l.count(before), map[[2]any]bool{}, map[any]bool{}
	for i, item := range slices.Backward(itemsOf(there)) {
		at[l.identity(item)] = i
	}
	for _, w := range itemsOf(wanted) {
		identities[l.identity(w)] = true
		i, found := at[l.identity(w)]
		if name := w[portNameField]; l.field == portsField && name != nil {
			names[name] = true
			if !found { // a protocol is not wanted, so that another one is no drift
				i = slices.IndexFunc(there, func(p any) bool { return named([]any{p}, portNameField, name)[l.key] == w[l.key] })
				found = i >= 0
			}
		}
		if found {
			ours[i] = true
		} else if was[w[l.key]] > 0 {
			missing = append(missing, w)
		}
	}
	taken = func(item map[string]any) bool { return identities[l.identity(item)] || names[item[portNameField]] }
	return ours, taken, missing
}

// renamed returns which of the missing items an item is but for its key; -1 if none.
func (l keyedList) renamed(missing []map[string]any, item map[string]any) int {
	return slices.IndexFunc(missing, func(w map[string]any) bool {
		for field, value := range w {
			if field != l.key && !holds(l.schema, field, item[field], value) {
				return false
			}
		}
		return true
	})
}

// count tells how many items have each key. Those without one do not count.
func (l keyedList) count(items []any) map[any]int {
	counts := map[any]int{}
	for _, item := range itemsOf(items) {
		switch key := item[l.key].(type) {
		case string, float64:
			counts[key]++
		}
	}
	return counts
}

// holds tells whether a field has all that is wanted of it, as includes does; but what others
// have added to lists with keys does not count.
func holds(schema strategicpatch.LookupPatchMeta, field string, is, wanted any) bool {
	switch part := wanted.(type) {
	case map[string]any:
		all, ok := is.(map[string]any)
		inner, _, err := schema.LookupPatchMetadataForStruct(field)
		if !ok || err != nil {
			return includes(is, wanted)
		}
		for name, value := range part {
			if !holds(inner, name, all[name], value) {
				return false
			}
		}
		return true
	case []any:
		inner, meta, err := schema.LookupPatchMetadataForSlice(field)
		key := meta.GetPatchMergeKey()
		if err != nil || key == "" {
			return includes(is, wanted)
		}
		all, _ := is.([]any)
		for _, w := range itemsOf(part) {
			item := named(all, key, w[key])
			for name, value := range w {
				if item == nil || !holds(inner, name, item[name], value) {
					return false
				}
			}
		}
		return true
	default:
		return includes(is, wanted)
	}
}
