package children

import (
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// unions maps the name of a field to the members of the union in it: only one of these fields may be set. A
// member that is not desired is removed even if it is not in the record, because the API server rejects an
// object with two members.
var unions = map[string][]string{
	"env":            {"value", "valueFrom"},
	"valueFrom":      {"configMapKeyRef", "fieldRef", "fileKeyRef", "resourceFieldRef", "secretKeyRef"},
	"livenessProbe":  {"exec", "grpc", "httpGet", "tcpSocket"},
	"readinessProbe": {"exec", "grpc", "httpGet", "tcpSocket"},
	"preStop":        {"exec", "httpGet", "sleep", "tcpSocket"},
	"seccompProfile": {"localhostProfile"},
	"spec":           {"maxUnavailable", "minAvailable"}, // of a PodDisruptionBudget
}

// claims finds the fields and items to remove from a live object although they are not in the record:
// members of unions, and list items that conflict with desired items.
type claims struct {
	// replaced are the lists that a merge by key cannot bring to the desired state.
	replaced []replacedList
}

// fields adds to original the fields that a merge must remove. If a merge would confuse list items with
// desired items, fields removes them from current and adds their list to replaced. holder is the name of
// the field that has the object, or that has the list with the object.
func (c *claims) fields(schema strategicpatch.LookupPatchMeta, path []step, holder string, original, modified, current map[string]any) {
	for _, member := range unions[holder] {
		_, wanted := modified[member]
		if value, there := current[member]; there && !wanted {
			original[member] = value
		}
	}
	for field, wanted := range modified {
		switch wanted := wanted.(type) {
		case map[string]any:
			there, ok := current[field].(map[string]any)
			inner, _, err := schema.LookupPatchMetadataForStruct(field)
			if !ok || err != nil || holder == "" && field == "metadata" {
				continue // metadata has no unions
			}
			before, ok := original[field].(map[string]any)
			if !ok {
				before = map[string]any{}
			}
			c.fields(inner, through(path, step{field: field}), field, before, wanted, there)
			if len(before) > 0 {
				original[field] = before
			}
		case []any:
			inner, meta, err := schema.LookupPatchMetadataForSlice(field)
			if key := meta.GetPatchMergeKey(); err == nil && key != "" {
				c.items(keyedList{inner, path, field, key}, original, modified, current)
			}
		}
	}
}

// items does the same as fields for a keyed list. original, modified and current are the objects that have
// the list.
func (c *claims) items(l keyedList, original, modified, current map[string]any) {
	before, _ := original[l.field].([]any)
	wanted, _ := modified[l.field].([]any)
	there, _ := current[l.field].([]any)
	d := l.divide(before, wanted, there)
	if l.field == volumesField {
		d.gone = withoutMounted(d.gone, l, modified, current)
	}
	for _, item := range d.gone {
		before = append(before, map[string]any{l.key: item[l.key]})
	}
	if d.ambiguous {
		current[l.field] = d.rest
		c.replaced = append(c.replaced, replacedList{l, d.aside})
	}
	for _, wanted := range itemsOf(wanted) {
		ours := named(d.rest, l.key, wanted[l.key])
		if ours == nil {
			continue
		}
		was := named(before, l.key, wanted[l.key])
		known := was != nil
		if !known {
			was = map[string]any{l.key: wanted[l.key]}
		}
		c.fields(l.schema, through(l.path, step{l.field, l.key, wanted[l.key]}), l.field, was, wanted, ours)
		if !known && len(was) > 1 {
			before = append(before, was)
		}
	}
	if len(before) > 0 {
		original[l.field] = before
	}
}
