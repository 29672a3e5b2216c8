package faults

import (
	"bytes"
	"encoding/json"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// setTime stores the time in the bubble of a call.
func (h *history) setTime(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = now
}

// inBubbleTime returns an object or a list with deletion times of the bubble. The clock of the API server is far
// behind the clock of the bubble, and the operator compares the time at which a Pod was deleted with its own time.
func (h *history) inBubbleTime(body []byte) []byte {
	if !bytes.Contains(body, []byte(`"deletionTimestamp"`)) {
		return body
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var object map[string]any
	if decoder.Decode(&object) != nil {
		return body // the reader of the body reports the error
	}
	items, isList := object["items"].([]any)
	if !isList {
		items = []any{object}
	}
	for _, item := range items {
		object, _ := item.(map[string]any)
		metadata, _ := object["metadata"].(map[string]any)
		if uid, _ := metadata["uid"].(string); metadata["deletionTimestamp"] != nil {
			metadata["deletionTimestamp"] = h.deletionTime(types.UID(uid))
		}
	}
	text, _ := json.Marshal(object) // decoded JSON can always be encoded
	return text
}

// deletionTime returns the time in the bubble at which an object was deleted. No object has a grace period.
func (h *history) deletionTime(uid types.UID) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.deletionTimes[uid] == "" {
		h.deletionTimes[uid] = h.now.UTC().Format(time.RFC3339)
	}
	return h.deletionTimes[uid]
}
