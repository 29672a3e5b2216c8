package children

import (
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// unions are fields of which one or some exclude others, by the name of what holds
// them. Where somebody has set another member than is wanted, it is taken out like a
// field that was wanted before: beside ours the API server would refuse it.
var unions = map[string][]string{
	"env":            {"value", "valueFrom"},
	"valueFrom":      {"configMapKeyRef", "fieldRef", "fileKeyRef", "resourceFieldRef", "secretKeyRef"},
	"livenessProbe":  {"exec", "grpc", "httpGet", "tcpSocket"},
	"readinessProbe": {"exec", "grpc", "httpGet", "tcpSocket"},
	"preStop":        {"exec", "httpGet", "sleep", "tcpSocket"},
	"seccompProfile": {"localhostProfile"},
	"spec":           {"maxUnavailable", "minAvailable"}, // of a disruption budget
}

// claims are what has to go from a live object so that what is wanted can be there, though
// the record does not say that it was wanted: members of unions, and list items that take
// the place of ours.
type claims struct {
	// replaced are the lists that a merge by key cannot express.
	replaced []replacedList
}

// fields adds to original the fields of an object that have to go. From current it removes
// the list items that a merge cannot tell from ours, and notes their lists. holder is the
// name of the field that the object, or the list that it is in, is of.
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
				continue // of metadata nothing excludes anything
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

// items does so for a list whose items are known by a key. original, modified and current
// are the objects that hold it.
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
