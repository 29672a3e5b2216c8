package children

import (
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// maxRecord is how many bytes a record has at most before it is shortened. The API server
// takes 256 KiB for all annotations of an object.
const maxRecord = 64 << 10

// shortened is a record without what no merge needs: of what was wanted last only the names of
// fields and the keys of list items decide what is taken out. Its metadata stays as it is,
// since it tells whose the child is.
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

// shorten empties the values of an object, except for the one under key.
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
