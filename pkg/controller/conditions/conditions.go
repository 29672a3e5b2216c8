// Package conditions holds the vocabulary of status.conditions that every kind
// speaks, and the rules by which a new set of conditions follows an old one.
package conditions

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Types of conditions that every kind has.
const (
	// Ready is True when the object is what its spec says, for the generation
	// that status.observedGeneration names.
	Ready = "Ready"
	// Progressing is True while something is still under way.
	Progressing = "Progressing"
	// Degraded is True when something is wrong that a user should look at.
	Degraded = "Degraded"
	// Stalled is present only while it is True: nothing will happen until
	// somebody changes something. Tools based on kstatus then report a failure
	// rather than wait.
	Stalled = "Stalled"
)

// ReasonAsExpected is the reason of Degraded while it is False.
const ReasonAsExpected = "AsExpected"

// The API server refuses longer ones (metav1.Condition's own validation).
const maxMessage = 32768

// Set puts one condition into list, in place of the one of that type. It leaves
// times and generations to Stamp.
func Set(list *[]metav1.Condition, kind string, status metav1.ConditionStatus, reason, message string) {
	message = strings.ToValidUTF8(message, "\ufffd") // as JSON would, or it would differ from what is stored
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage-3], "") + "..."
	}
	c := metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
	if old := meta.FindStatusCondition(*list, kind); old != nil {
		*old = c
		return
	}
	*list = append(*list, c)
}

// True sets a condition to True.
func True(list *[]metav1.Condition, kind, reason, message string) {
	Set(list, kind, metav1.ConditionTrue, reason, message)
}

// False sets a condition to False.
func False(list *[]metav1.Condition, kind, reason, message string) {
	Set(list, kind, metav1.ConditionFalse, reason, message)
}

// Remove takes the condition of a type out of list, keeping the order of the
// others.
func Remove(list *[]metav1.Condition, kind string) {
	meta.RemoveStatusCondition(list, kind)
}

// Begin prepares the conditions of the last reconcile for the next one, which sets Degraded and
// Stalled again if they still apply.
func Begin(list *[]metav1.Condition) {
	False(list, Degraded, ReasonAsExpected, "")
	Remove(list, Stalled)
}

// Stamp gives every condition of list the generation and the time of its last
// transition: that of the condition of the same type in old if the status is
// still the same, else now. It comes last in a reconcile, so that a condition which
// was set to something else on the way and back again shows no transition. The
// conditions of old keep their order, so that one which was removed and set again
// makes no difference.
func Stamp(old []metav1.Condition, list *[]metav1.Condition, generation int64, now metav1.Time) {
	for i := range *list {
		c := &(*list)[i]
		c.ObservedGeneration = generation
		c.LastTransitionTime = now
		if was := meta.FindStatusCondition(old, c.Type); was != nil && was.Status == c.Status {
			c.LastTransitionTime = was.LastTransitionTime
		}
	}
	slices.SortStableFunc(*list, func(a, b metav1.Condition) int { return place(old, a.Type) - place(old, b.Type) })
}

// place is the index of the condition of a type in list, or that after the last.
func place(list []metav1.Condition, kind string) int {
	i := slices.IndexFunc(list, func(c metav1.Condition) bool { return c.Type == kind })
	if i < 0 {
		return len(list)
	}
	return i
}

// Find returns the condition of a type, or nil.
func Find(list []metav1.Condition, kind string) *metav1.Condition {
	return meta.FindStatusCondition(list, kind)
}

// IsTrue tells whether the condition of a type is there and True.
func IsTrue(list []metav1.Condition, kind string) bool {
	return meta.IsStatusConditionTrue(list, kind)
}
