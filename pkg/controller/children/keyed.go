package children

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// keyedList is a list whose items a strategic merge identifies by one field, the merge key.
type keyedList struct {
	schema strategicpatch.LookupPatchMeta // of an item
	path   []step                         // to the object that holds the list
	field  string
	key    string
}

// A port is identified by its number and protocol, but the merge key is the number alone
// (https://github.com/kubernetes/kubernetes/issues/39188). The names of ports are unique too.
const portsField, protocolField, defaultProtocol, portNameField = "ports", "protocol", "TCP", "name"

// identity returns the values by which the API server identifies an item.
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

// division says what a patch does with the observed items of a list.
type division struct {
	// gone are the items to delete by their values of the merge key.
	gone []map[string]any
	// ambiguous is true if an undesired item has the same value of the merge key as a desired item or as
	// another item, or has none. rest are all other items. aside are the ambiguous items that stay, with their
	// positions.
	ambiguous bool
	rest      []any
	aside     []placed
}

// placed is an item with its position in the observed list.
type placed struct {
	at   int
	item any
}

// divide decides what a patch does with the observed items. Items that other clients added stay, except a
// duplicate of a desired item, a port with the name of a desired port, a desired item in which the value of
// the merge key was changed, and an item without a merge key. divide leaves a list in which two desired
// items have the same value of the merge key to the merge.
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

// match returns the positions of the observed items that are desired, a function that reports
// whether an item has the identity of a desired item or the name of a desired port, and the desired
// items that are missing although they were desired before.
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
			if !found { // a port with this name and number is the desired port, whatever its protocol is
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

// renamed returns the index of the missing item that differs from item only in the value of the merge key,
// or -1.
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

// count returns the number of items with each value of the merge key.
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

// holds reports whether a field has everything that is desired. Unlike includes, it ignores items that
// other clients added to keyed lists.
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
