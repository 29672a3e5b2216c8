package children

import "slices"

// replacedList is a list that a patch replaces as a whole, because several items have the same value
// of the merge key, or an item has none.
type replacedList struct {
	keyedList
	// aside are the items that other clients added and that the merge ignores.
	aside []placed
}

// step leads from an object to the object in a field. If key is set, the field has a list, and step leads to
// the item of that list whose merge key, the field key, has this value.
type step struct {
	field, key string
	value      any
}

func through(path []step, s step) []step { return append(slices.Clip(path), s) }

// replaceLists adds the items in aside to their lists in the patched object, and makes the patch replace
// these lists.
func (c *claims) replaceLists(patch, patched map[string]any) {
	for _, l := range slices.Backward(c.replaced) { // inner lists first
		there := objectAt(patched, l.path)
		items, _ := there[l.field].([]any)
		for _, a := range l.aside {
			items = slices.Insert(items, min(a.at, len(items)), a.item)
		}
		there[l.field] = items
		said := objectAt(patch, l.path)
		delete(said, "$setElementOrder/"+l.field)
		said[l.field] = append([]any{map[string]any{"$patch": "replace"}}, items...)
	}
}

// objectAt returns the object at the end of a path, and creates the objects that are missing.
func objectAt(object map[string]any, path []step) map[string]any {
	for _, s := range path {
		if s.key == "" {
			inner, ok := object[s.field].(map[string]any)
			if !ok {
				inner = map[string]any{}
				object[s.field] = inner
			}
			object = inner
			continue
		}
		items, _ := object[s.field].([]any)
		item := named(items, s.key, s.value)
		if item == nil {
			item = map[string]any{s.key: s.value}
			object[s.field] = append(items, item)
		}
		object = item
	}
	return object
}

// itemsOf returns the objects in a list.
func itemsOf(list any) (items []map[string]any) {
	all, _ := list.([]any)
	for _, item := range all {
		if item, ok := item.(map[string]any); ok {
			items = append(items, item)
		}
	}
	return items
}

// named returns the item whose key has this value, or nil.
func named(list any, key string, value any) map[string]any {
	for _, item := range itemsOf(list) {
		if item[key] == value {
			return item
		}
	}
	return nil
}

// volumesField is the list of a Pod's volumes.
const volumesField = "volumes"

// withoutMounted returns the volumes to which no undesired volumeMount refers. The API server rejects a Pod
// whose volumeMount has no volume.
func withoutMounted(volumes []map[string]any, l keyedList, modified, current map[string]any) []map[string]any {
	for _, field := range []string{"containers", "initContainers"} {
		for _, container := range itemsOf(current[field]) {
			ours := named(modified[field], "name", container["name"])
			for _, mount := range itemsOf(container["volumeMounts"]) {
				if named(ours["volumeMounts"], "mountPath", mount["mountPath"]) == nil {
					volumes = slices.DeleteFunc(volumes, func(v map[string]any) bool { return v[l.key] == mount["name"] })
				}
			}
		}
	}
	return volumes
}
