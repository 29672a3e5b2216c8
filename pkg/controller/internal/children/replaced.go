package children

import "slices"

// replacedList is a list that a patch replaces as a whole, since its merge key does not tell
// its items apart.
type replacedList struct {
	keyedList
	// aside are items of others that the merge must not see.
	aside []placed
}

// step leads from an object to the one in a field of it or, with the merge key of a list and
// its value, to an item there.
type step struct {
	field, key string
	value      any
}

func through(path []step, s step) []step { return append(slices.Clip(path), s) }

// replaceLists puts what was set aside back into what a patch comes to, and has the patch
// replace the lists in which that is.
func (c *claims) replaceLists(patch, patched map[string]any) {
	for _, l := range slices.Backward(c.replaced) { // inner ones first
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

// objectAt returns the object to which a path leads, and makes what is missing on the way.
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

// itemsOf are the objects in a list.
func itemsOf(list any) (items []map[string]any) {
	all, _ := list.([]any)
	for _, item := range all {
		if item, ok := item.(map[string]any); ok {
			items = append(items, item)
		}
	}
	return items
}

// named returns the item with a key, or nil.
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

// withoutMounted leaves out the volumes that somebody else's mount needs: the API server
// refuses a Pod in which it has none.
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
