package lenient

import (
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// maxError limits the error of a decoder in a Mark, in bytes.
const maxError = 256

// identity decodes the metadata and the status of an object, and marks the object as unreadable. If the status cannot
// be decoded, the object has no status. If data is not an object of a known type, identity returns cause, the error of
// the strict decoder.
func (d *decoder) identity(data []byte, defaults *schema.GroupVersionKind, into runtime.Object, cause error) (
	runtime.Object, *schema.GroupVersionKind, error,
) {
	var parts struct {
		APIVersion string                     `json:"apiVersion,omitempty"`
		Kind       string                     `json:"kind,omitempty"`
		Metadata   map[string]json.RawMessage `json:"metadata"`
		// Spec has the field that says to which namespace, and so to which shard, a cluster-scoped object belongs.
		Spec struct {
			Namespace string `json:"namespace,omitempty"`
		} `json:"spec,omitzero"`
		Status json.RawMessage `json:"status,omitempty"`
	}
	_ = json.Unmarshal(data, &parts) // json.Unmarshal skips values of other types
	for name, value := range parts.Metadata {
		if !isMetadata(name, value) {
			delete(parts.Metadata, name)
		}
	}
	mark := Mark{Reason: ReasonUnreadable, Cause: cut(cause.Error())}
	for len(parts.Metadata) > 0 {
		identity, err := json.Marshal(parts)
		if err != nil {
			break
		}
		if obj, kind, err := d.decode(identity, defaults, into); err == nil {
			object, err := meta.Accessor(obj)
			if err != nil {
				break
			}
			return obj, kind, mark.SetOn(object)
		}
		if mark.StatusLost {
			break
		}
		parts.Status, mark.StatusLost = nil, true
	}
	return nil, nil, cause
}

// isMetadata reports whether the field name of ObjectMeta can hold value.
func isMetadata(name string, value json.RawMessage) bool {
	text, err := json.Marshal(map[string]json.RawMessage{name: value})
	return err == nil && json.Unmarshal(text, &metav1.ObjectMeta{}) == nil
}

// cut returns at most maxError bytes of text.
func cut(text string) string {
	if len(text) > maxError {
		text = text[:maxError-3] + "..."
	}
	return strings.ToValidUTF8(text, "?")
}
