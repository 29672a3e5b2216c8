package inspect

import (
	"cmp"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// warning returns the message of the last Warning Event about an object, or "".
func (o *Objects) warning(about *unstructured.Unstructured) string {
	return o.warningSince(about, "")
}

// warningSince returns the message of the last Warning Event about an object at the time last or later, or "". The
// format of the time is the format of the API, in which later times are greater strings.
func (o *Objects) warningSince(about *unstructured.Unstructured, last string) (message string) {
	for _, event := range o.all {
		if event.GetKind() != "Event" || text(event, "involvedObject", "uid") != string(about.GetUID()) {
			continue
		}
		at := cmp.Or(text(event, "lastTimestamp"), text(event, "eventTime"))
		if at >= last {
			last, message = at, text(event, "message")
		}
	}
	return message
}

// below returns the problem of the first Pod or volume that an object owns, directly or not. found is false if no such
// object has a problem.
func below(obj *unstructured.Unstructured, all *Objects) (problem Cause, found bool) {
	for _, child := range all.OwnedBy(obj) {
		if IsOwn(child.GroupVersionKind()) {
			continue // the child has a condition Ready of its own
		}
		if says := trouble(child, all); says != "" {
			return Cause{Name(child), says}, true
		}
		if problem, found = below(child, all); found {
			return problem, true
		}
	}
	return problem, false
}

const podFailed = "Failed"

// failedPod returns the name of a failed Pod below an object, or "". Of several failed Pods, it returns the last in the
// order of OwnedBy.
func failedPod(obj *unstructured.Unstructured, all *Objects) (name string) {
	for _, child := range all.OwnedBy(obj) {
		if child.GetKind() == "Pod" && text(child, "status", "phase") == podFailed {
			name = child.GetName()
		}
		if IsOwn(child.GroupVersionKind()) {
			continue // the child has a condition Ready of its own, and a cycle of owner references ends here
		}
		if found := failedPod(child, all); found != "" {
			name = found
		}
	}
	return name
}

// trouble says what is wrong with a Pod, a volume, a ReplicaSet or a Deployment, or returns "".
func trouble(obj *unstructured.Unstructured, all *Objects) string {
	switch obj.GetKind() {
	case "Pod":
		phase := text(obj, "status", "phase")
		if phase == podFailed || phase == "Succeeded" || obj.GetDeletionTimestamp() != nil {
			return "" // the operator says how the Pod ended, or replaces the Pod
		}
		if scheduled, ok := condition(obj, "PodScheduled"); ok && scheduled.Status == metav1.ConditionFalse {
			return "is not scheduled: " + scheduled.Message
		}
		if reason := podReason(obj); reason != "" {
			return fmt.Sprintf("does not run (%s): %s", reason, all.warning(obj))
		}
		if ready, ok := condition(obj, "Ready"); ok && ready.Status == metav1.ConditionFalse {
			// Warnings before this transition, for example of the scheduler, have been resolved.
			if says := all.warningSince(obj, ready.LastTransitionTime.UTC().Format(time.RFC3339)); says != "" {
				return "is not ready: " + says // for example because of a probe
			}
		}
	case "PersistentVolumeClaim":
		if text(obj, "status", "phase") == "Pending" {
			if says := all.warning(obj); says != "" {
				return "is Pending: " + says
			}
			if class := text(obj, "spec", "storageClassName"); class != "" {
				return "is Pending: no volume of the StorageClass " + class + " is bound to it"
			}
			return "is Pending: no volume is bound to it"
		}
	case "ReplicaSet", "Deployment":
		if failure, ok := condition(obj, "ReplicaFailure"); ok && failure.Status == metav1.ConditionTrue {
			return "cannot create Pods: " + failure.Message
		}
	}
	return ""
}
