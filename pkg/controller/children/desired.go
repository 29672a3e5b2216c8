package children

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// maxRecorded is the largest size in bytes of a field of the spec, for example of the Pod template, that a record
// contains. Of a larger field, the record contains the digest. The API server limits the annotations of an object to
// 256 KiB.
const maxRecorded = 64 << 10

// digestPrefix begins the digest of a field in a record.
const digestPrefix = "sha256:"

// desiredState is the desired state of a child.
type desiredState[T Object] struct {
	object T
	// record is the value of RecordAnnotation.
	record string
	// adopts is true if the merge removes AdoptAnnotation.
	adopts bool
}

// desiredStateOf returns want with its record. The record lacks the kind, the API version, the status, and the fields
// that the first merge takes as a whole. A later merge ignores the record of the other fields that it takes as a whole.
func (t *Type[T]) desiredStateOf(want T) (desiredState[T], error) {
	text, err := json.Marshal(want)
	if err != nil {
		return desiredState[T]{}, err
	}
	var recorded map[string]json.RawMessage
	if err := json.Unmarshal(text, &recorded); err != nil {
		return desiredState[T]{}, err
	}
	for _, field := range append([]string{"kind", "apiVersion", "status"}, t.first().whole()...) {
		delete(recorded, field)
	}
	if len(recorded["spec"]) > maxRecorded {
		if recorded["spec"], err = withDigests(recorded["spec"]); err != nil {
			return desiredState[T]{}, err
		}
	}
	record, err := json.Marshal(recorded)
	return desiredState[T]{object: want, record: string(record)}, err
}

// withDigests returns a spec in which each field of more than maxRecorded bytes is replaced by its digest.
func withDigests(spec json.RawMessage) (json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(spec, &fields); err != nil {
		return nil, err
	}
	for field, value := range fields {
		if len(value) > maxRecorded {
			sum := sha256.Sum256(value)
			fields[field] = json.RawMessage(`"` + digestPrefix + hex.EncodeToString(sum[:]) + `"`)
		}
	}
	return json.Marshal(fields)
}

// restoreDigests replaces the digests in previous, which comes from a record. If the record of the desired state has
// the same digest, the field gets its desired value. Of any other field only the digest is known, so the field gets its
// observed value. A merge then removes everything in the field that is not desired.
func (w desiredState[T]) restoreDigests(previous, desired, observed map[string]any) {
	spec, _ := previous["spec"].(map[string]any)
	for field, value := range spec {
		digest, ok := value.(string)
		if !ok || !strings.HasPrefix(digest, digestPrefix) {
			continue
		}
		from := observed
		if strings.Contains(w.record, digest) { // a digest occurs nowhere else in a record
			from = desired
		}
		spec[field], _, _ = unstructured.NestedFieldCopy(from, "spec", field)
	}
}
