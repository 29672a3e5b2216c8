package plan

import (
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// statusField is the name of the field, and of the subresource, with the status.
const statusField = "status"

// ofServer are the fields of the metadata that only the API server sets.
var ofServer = []string{"uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"}

// asNew returns an object without the fields that the API server sets when it creates the object.
func asNew(obj *unstructured.Unstructured) *unstructured.Unstructured {
	first := obj.DeepCopy()
	for _, field := range append(ofServer, "resourceVersion") {
		unstructured.RemoveNestedField(first.Object, "metadata", field)
	}
	return first
}

// merged returns current with the part of result that a write changes: only the status, or everything but the status
// and the metadata that the API server sets.
func merged(current, result *unstructured.Unstructured, onlyStatus bool) *unstructured.Unstructured {
	if onlyStatus {
		after := current.DeepCopy()
		put(after.Object, result.Object, statusField)
		return after
	}
	after := result.DeepCopy()
	put(after.Object, current.Object, statusField)
	is, was := after.Object["metadata"].(map[string]any), current.Object["metadata"].(map[string]any)
	for _, field := range ofServer {
		put(is, was, field)
	}
	after.SetManagedFields(nil)
	if current.GetGeneration() > 0 && !reflect.DeepEqual(current.Object["spec"], after.Object["spec"]) {
		after.SetGeneration(current.GetGeneration() + 1)
	}
	return after
}

// put copies a field of the map from into the map to. If from lacks the field, put removes the field of to.
func put(to, from map[string]any, field string) {
	delete(to, field)
	if value, ok := from[field]; ok {
		to[field] = value
	}
}

// isSame reports whether a write has changed nothing.
func isSame(current, after *unstructured.Unstructured) bool {
	after = after.DeepCopy()
	after.SetResourceVersion(current.GetResourceVersion())
	return reflect.DeepEqual(current.Object, after.Object)
}
