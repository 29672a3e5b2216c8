package lenient

import (
	"crypto/rand"
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reasons of a Mark.
const (
	// ReasonUnreadable means that the stored object cannot be decoded.
	ReasonUnreadable = "Unreadable"
	// ReasonTooLarge means that the object has more than budget.Object bytes.
	ReasonTooLarge = "TooLarge"
	// ReasonBudgetExceeded means that the large objects of the namespace have more than budget.Namespace bytes.
	ReasonBudgetExceeded = "NamespaceBudgetExceeded"
)

// MarkAnnotation has the Mark of an object in memory. It is never stored.
const MarkAnnotation = "windlass.dev/unreadable"

// token is a secret in every Mark that this process sets. A Mark without it was set by a user, and is ignored.
var token = rand.Text()

// Mark says why a cached object has no spec.
type Mark struct {
	Reason string `json:"reason"`
	// Cause is the error of the decoder.
	Cause string `json:"cause,omitempty"`
	// StatusLost is true if the cached object has no status either, although the stored object has one.
	StatusLost bool `json:"statusLost,omitempty"`
	// Size is the size of an object that exceeds a limit, and Limit the limit, in bytes.
	Size  int `json:"size,omitempty"`
	Limit int `json:"limit,omitempty"`
}

// signed is the value of MarkAnnotation, as JSON.
type signed struct {
	Mark
	Token string `json:"token"`
}

// SetOn marks an object.
func (m Mark) SetOn(object metav1.Object) error {
	text, err := json.Marshal(signed{m, token})
	if err != nil {
		return err
	}
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[MarkAnnotation] = string(text)
	object.SetAnnotations(annotations)
	return nil
}

// MarkOn returns the Mark of an object, or nil.
func MarkOn(object metav1.Object) *Mark {
	text, marked := object.GetAnnotations()[MarkAnnotation]
	if !marked {
		return nil
	}
	var s signed
	if err := json.Unmarshal([]byte(text), &s); err != nil || s.Token != token {
		return nil
	}
	return &s.Mark
}
