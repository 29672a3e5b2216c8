package conversion

import (
	"encoding/json"
	"fmt"
)

// ConvertAt converts the object with index i in a ConversionReview. Its error names the object. One error
// fails the whole review, since the API server cannot use a part of the result.
func ConvertAt(i int, raw []byte, desired string) ([]byte, error) {
	converted, err := Convert(raw, desired)
	if err != nil {
		return nil, fmt.Errorf("objects[%d]%s: %w", i, nameOf(raw), err)
	}
	return converted, nil
}

// nameOf returns the kind, namespace and name of an object for an error. It returns "" for an object without
// a name.
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
