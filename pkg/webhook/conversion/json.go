package conversion

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
)

// object is a JSON object whose values keep their bytes.
type object map[string]json.RawMessage

// field decodes one value of o. It returns the zero value of T if o does not have the field.
func field[T any](o object, name string) (value T, err error) {
	raw, found := o[name]
	if !found {
		return value, nil
	}
	if err := json.Unmarshal(raw, &value); err != nil {
		return value, fmt.Errorf("%s: %w", name, err)
	}
	return value, nil
}

// set sets a field of o to value, encoded as JSON.
func (o object) set(name string, value any) error {
	raw, err := encode(value)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	o[name] = raw
	return nil
}

// take moves values out of o into a new object. It returns nil if o is nil.
func (o object) take(names ...string) object {
	if o == nil {
		return nil
	}
	taken := object{}
	for _, name := range names {
		if raw, found := o[name]; found {
			taken[name] = raw
			delete(o, name)
		}
	}
	return taken
}

// merge returns the values of both objects. The values of over take precedence.
func merge(under, over object) object {
	if under == nil {
		return over
	}
	merged := maps.Clone(under)
	maps.Copy(merged, over)
	return merged
}

// typed is an At as Go clients decode it, without metadata.
type typed[Spec, Status any] struct {
	Spec   Spec   `json:"spec"`
	Status Status `json:"status"`
}

// encode returns JSON that does not escape &, < and >, so that shell lines stay readable.
func encode(value any) ([]byte, error) {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buffer.Bytes(), []byte("\n")), nil
}
