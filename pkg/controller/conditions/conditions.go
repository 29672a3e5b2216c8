// Package conditions defines the conditions that the status of every kind has, and how each reconcile
// updates them.
package conditions

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Types of conditions that every kind has.
const (
	// Ready is True when the object is in its desired state, for the generation in
	// status.observedGeneration.
	Ready = "Ready"
	// Progressing is True while the object moves towards its desired state.
	Progressing = "Progressing"
	// Degraded is True when the object has a problem that a user should look at.
	Degraded = "Degraded"
	// Stalled is present only while it is True: the object does not progress until a user changes
	// something. Tools based on kstatus then report a failure and do not wait.
	Stalled = "Stalled"
	// Paused is present only while it is True: the operator changes nothing for the object, because a user has
	// paused it.
	Paused = "Paused"
)

// ReasonAsExpected is the reason of Degraded while it is False.
const ReasonAsExpected = "AsExpected"

// maxMessage is how many bytes of a message Set keeps. The API server rejects longer messages (the
// validation of metav1.Condition).
const maxMessage = 32768

// Set adds a condition to list, or replaces the condition of the same type. Stamp sets its time and
// generation.
func Set(list *[]metav1.Condition, kind string, status metav1.ConditionStatus, reason, message string) {
	message = strings.ToValidUTF8(message, "\ufffd") // as JSON does, so that it equals the stored message
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

// Remove removes the condition of a type from list. The other conditions keep their order.
func Remove(list *[]metav1.Condition, kind string) {
	meta.RemoveStatusCondition(list, kind)
}

// Begin sets Degraded to False, and removes Stalled and Paused, at the start of a reconcile. The reconcile sets
// Degraded and Stalled again if they still apply.
func Begin(list *[]metav1.Condition) {
	False(list, Degraded, ReasonAsExpected, "")
	Remove(list, Stalled)
	Remove(list, Paused)
}

// Stamp sets the generation and the last transition time of every condition in list. A condition whose
// status is the same as in old keeps its time from old. Every other condition gets the time now. Stamp is
// called at the end of a reconcile, so that a condition that was changed and changed back shows no
// transition. The conditions get the order that they have in old, so that removing and setting a condition
// again makes no difference.
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

// place returns the index of the condition of a type in list, or len(list) for a missing condition.
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

// IsTrue reports whether list has the condition of a type with status True.
func IsTrue(list []metav1.Condition, kind string) bool {
	return meta.IsStatusConditionTrue(list, kind)
}
