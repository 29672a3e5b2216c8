package children

import (
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// maxRecord is the size in bytes above which a record is shortened. The API server limits the
// annotations of an object to 256 KiB.
const maxRecord = 64 << 10

// shortened returns a record without the values that no merge needs. A merge derives the fields to remove
// from the names of fields and the values of merge keys in list items. The metadata stays, because it identifies
// the owner of the child.
func shortened(object any, record []byte) ([]byte, error) {
	schema, err := strategicpatch.NewPatchMetaFromStruct(object)
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	if err := json.Unmarshal(record, &fields); err != nil {
		return nil, err
	}
	if spec, ok := fields["spec"].(map[string]any); ok {
		inner, _, err := schema.LookupPatchMetadataForStruct("spec")
		if err != nil {
			return nil, err
		}
		shorten(inner, spec, "")
	}
	return json.Marshal(fields)
}

// shorten empties the strings of an object, except the field key, and the lists that a merge replaces.
func shorten(schema strategicpatch.LookupPatchMeta, fields map[string]any, key string) {
	for field, value := range fields {
		switch value := value.(type) {
		case map[string]any:
			inner, _, err := schema.LookupPatchMetadataForStruct(field)
			if err == nil {
				shorten(inner, value, "")
			}
		case []any:
			inner, meta, err := schema.LookupPatchMetadataForSlice(field)
			switch {
			case err != nil || !slices.Contains(meta.GetPatchStrategies(), "merge"):
				fields[field] = []any{}
			default:
				for _, item := range itemsOf(value) {
					shorten(inner, item, meta.GetPatchMergeKey())
				}
			}
		case string:
			if field != key {
				fields[field] = ""
			}
		}
	}
}
