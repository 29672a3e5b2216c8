package conversion

import (
	"encoding/json"
	"fmt"
)

// ConvertAt is Convert for the i-th object of a ConversionReview. Its error says which object
// it is. One that cannot be converted fails the whole review: the API server has no use for a
// part.
func ConvertAt(i int, raw []byte, desired string) ([]byte, error) {
	converted, err := Convert(raw, desired)
	if err != nil {
		return nil, fmt.Errorf("objects[%d]%s: %w", i, nameOf(raw), err)
	}
	return converted, nil
}

// nameOf says which object it is, as far as can be told.
func nameOf(raw []byte) string {
	var named struct {
		Kind     string
		Metadata struct{ Namespace, Name string }
	}
	if err := json.Unmarshal(raw, &named); err != nil || named.Metadata.Name == "" {
		return ""
	}
	return fmt.Sprintf(" (%s %s/%s)", named.Kind, named.Metadata.Namespace, named.Metadata.Name)
}
