package children

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// holds reports whether an object has every desired field, and every desired list item exactly once. A strategic merge
// can lose an item, because it finds the ports of a Service by their number alone: 53/UDP beside 53/TCP
// (https://github.com/kubernetes/kubernetes/issues/39188). It does not remove repeated items.
func holds(schema strategicpatch.LookupPatchMeta, object, desired map[string]any) bool {
	for field, want := range desired {
		switch want := want.(type) {
		case map[string]any:
			is, ok := object[field].(map[string]any)
			inner, _, err := schema.LookupPatchMetadataForStruct(field)
			if !ok || err != nil || !holds(inner, is, want) {
				return false
			}
		case []any:
			is, _ := object[field].([]any)
			inner, meta, err := schema.LookupPatchMetadataForSlice(field)
			if err != nil || !holdsItems(inner, meta.GetPatchMergeKey(), is, want) {
				return false
			}
		default:
			if object[field] != want {
				return false
			}
		}
	}
	return true
}

// holdsItems compares the items of a list as the function holds compares values. key is the merge key of the list, or
// empty.
func holdsItems(schema strategicpatch.LookupPatchMeta, key string, items, desired []any) bool {
	if key == "" {
		return !slices.ContainsFunc(desired, func(want any) bool {
			return !slices.ContainsFunc(items, func(item any) bool { return includes(item, want) })
		})
	}
	surplus := map[[2]any]int{} // how often items has an item, minus how often desired has it
	for _, item := range items {
		surplus[identity(item, key)]++
	}
	for _, want := range desired {
		surplus[identity(want, key)]--
	}
	for _, want := range desired {
		asOften := surplus[identity(want, key)] == 0 // each desired item exactly once
		if !asOften || !holds(schema, find(items, want, key), want.(map[string]any)) {
			return false
		}
	}
	return true
}

// renamed reports whether another client has changed the merge key of a list item. An item that is recorded and desired
// is then missing in observed, and another item has all of its other fields. Only a merge that replaces the list
// removes the renamed item. With both items, two containers of one Database could have the same volume.
func renamed(schema strategicpatch.LookupPatchMeta, previous, desired, observed map[string]any) bool {
	for field, want := range desired {
		switch want := want.(type) {
		case map[string]any:
			was, _ := previous[field].(map[string]any)
			is, _ := observed[field].(map[string]any)
			inner, _, err := schema.LookupPatchMetadataForStruct(field)
			if err == nil && renamed(inner, was, want, is) {
				return true
			}
		case []any:
			was, _ := previous[field].([]any)
			is, _ := observed[field].([]any)
			inner, meta, err := schema.LookupPatchMetadataForSlice(field)
			if key := meta.GetPatchMergeKey(); err == nil && key != "" && renamedItem(inner, key, was, want, is) {
				return true
			}
		}
	}
	return false
}

// renamedItem does the same as renamed for one list. key is the merge key of the list.
func renamedItem(schema strategicpatch.LookupPatchMeta, key string, previous, desired, observed []any) bool {
	return slices.ContainsFunc(desired, func(want any) bool {
		was, is := find(previous, want, key), find(observed, want, key)
		if is != nil { // this item has its key, but may contain a list with a renamed item
			return renamed(schema, was, want.(map[string]any), is)
		}
		if was == nil { // this item is new
			return false
		}
		others := maps.Clone(want.(map[string]any))
		delete(others, key)
		return slices.ContainsFunc(observed, func(item any) bool {
			return includes(item, others) && find(desired, item, key) == nil && find(previous, item, key) == nil
		})
	})
}

// find returns the item of a list that has the identity of want, or nil. key is the merge key of the list.
func find(items []any, want any, key string) map[string]any {
	for _, item := range items {
		if item, ok := item.(map[string]any); ok && identity(item, key) == identity(want, key) {
			return item
		}
	}
	return nil
}

// identity returns the values by which the API server identifies a list item: the merge key, and the protocol of a
// port.
func identity(item any, key string) [2]any {
	fields, _ := item.(map[string]any)
	if protocol, ok := fields["protocol"]; ok {
		return [2]any{fields[key], protocol}
	}
	return [2]any{fields[key], "TCP"}
}

// includes reports whether all has every field of part, so that there is nothing to merge. It compares
// lists by position. It returns false for a list to which other clients added items, because that list
// needs a merge.
func includes(all, part any) bool {
	switch part := part.(type) {
	case map[string]any:
		all, ok := all.(map[string]any)
		if !ok {
			return false
		}
		for key, value := range part {
			if is, there := all[key]; !there || !includes(is, value) {
				return false
			}
		}
		return true
	case []any:
		all, ok := all.([]any)
		return ok && slices.EqualFunc(all, part, includes)
	default:
		return all == part
	}
}
