//go:build integration

package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	"windlass.dev/windlass/test/framework"
)

// TestReconcileCorrectsEachDriftInOneWrite changes a quarter of the fields (see framework.Quarter) that the operator
// sets in every child, one at a time, including the keys of list items, and except for fields that users may change. It
// also removes and repeats the list items with these fields.
func TestReconcileCorrectsEachDriftInOneWrite(t *testing.T) {
	forAll(t, func(t *testing.T, o owner) {
		namespace, client := shared.NewNamespace(t), dynamicClient(t)
		createEverything(t, o, shared, namespace)
		patches := func() int { // only successful patches: after a conflict, the operator sends a patch again
			return len(controllerRequests(t, shared.Cluster, func(r framework.Request) bool {
				return r.ObjectRef.Namespace == namespace && r.Verb == "patch" && r.ResponseStatus.Code < 300 &&
					slices.ContainsFunc(o.children, func(c childType) bool { return c.Resource == r.ObjectRef.Resource })
			}))
		}
		fields, rejected, first := 0, 0, patches()
		for _, c := range o.children {
			before := c.get(t, client, namespace)
			paths, err := framework.Quarter(wantedFields(t, before))
			if err != nil {
				t.Fatal(err)
			}
			disturb := func(paths [][]any, how disturbance) {
				for _, path := range paths {
					if changeField(t, client, c, before, path, how) {
						fields++
						waitCorrected(t, client, c, before, path)
					} else {
						rejected++
					}
				}
			}
			disturb(slices.DeleteFunc(slices.Clone(paths), func(path []any) bool {
				return slices.ContainsFunc(c.unwatched, func(fields []string) bool {
					return fmt.Sprint(fields) == fmt.Sprint(path)
				})
			}), change)
			disturb(itemsIn(paths), remove)
			disturb(itemsIn(paths), repeat)
		}
		if fields < rejected || fields == 0 {
			t.Errorf("only %d fields could be changed; the API server rejected or reverted %d changes", fields, rejected)
		}
		if got := patches() - first; got != fields {
			t.Errorf("the operator corrected %d changes with %d writes", fields, got)
		}
		t.Logf("%d fields and list items of the children of kind %s were changed and corrected; the API server "+
			"rejected or reverted %d changes", fields, o.name, rejected)
	})
}

// wantedFields returns the paths of all scalars in the record of a child, without names and owner references. If the
// record has no data or no spec, it uses the data or spec of the child instead.
func wantedFields(t *testing.T, object *unstructured.Unstructured) [][]any {
	t.Helper()
	var record map[string]any
	if err := json.Unmarshal([]byte(object.GetAnnotations()[recordAnnotation]), &record); err != nil {
		t.Fatalf("reading the record: %v", err)
	}
	for _, field := range []string{"data", "spec"} { // not all records contain these fields
		if whole, ok := object.Object[field]; ok && record[field] == nil {
			record[field] = whole
		}
	}
	metadata := record["metadata"].(map[string]any)
	// Names cannot be changed, and an object with another owner is a foreign object.
	for _, name := range []string{"name", "namespace", "ownerReferences"} {
		delete(metadata, name)
	}
	var paths [][]any
	var walk func(value any, path []any)
	walk = func(value any, path []any) {
		switch value := value.(type) {
		case map[string]any:
			for key, inner := range value {
				walk(inner, append(path[:len(path):len(path)], key))
			}
		case []any:
			for i, inner := range value {
				walk(inner, append(path[:len(path):len(path)], i))
			}
		default:
			paths = append(paths, path)
		}
	}
	walk(record, nil)
	slices.SortFunc(paths, func(a, b []any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return paths
}

// itemsIn returns the path of each list item that contains one of the fields.
func itemsIn(fields [][]any) (items [][]any) {
	known := map[string]bool{}
	for _, path := range fields {
		for i, step := range path {
			if _, ok := step.(int); ok && !known[fmt.Sprint(path[:i+1])] {
				known[fmt.Sprint(path[:i+1])] = true
				items = append(items, path[:i+1])
			}
		}
	}
	return items
}

// changeField changes one field of a child as another client. It returns false if the API server rejects or reverts the
// change.
func changeField(
	t *testing.T, client dynamic.Interface, c childType, before *unstructured.Unstructured, path []any, how disturbance,
) bool {
	t.Helper()
	for {
		object := c.get(t, client, before.GetNamespace())
		if _, ok := alter(object.Object, path, how); !ok {
			t.Fatalf("%s has no field %v", c.Resource, path)
		}
		changed, err := client.Resource(c.GroupVersionResource).Namespace(object.GetNamespace()).Update(t.Context(),
			object, metav1.UpdateOptions{})
		switch {
		case apierrors.IsConflict(err):
			continue
		case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsForbidden(err):
			return false
		case err != nil:
			t.Fatalf("changing %v of %s: %v", path, c.Resource, err)
		}
		// the API server may ignore a change of a field that is an alias of another field
		return !cmp.Equal(asWritten(before), asWritten(changed))
	}
}

// disturbance changes the field or list item at a key or index of holder, and returns the changed holder.
type disturbance func(holder, at any) any

// change replaces a value with another value of the same type.
func change(holder, at any) any {
	switch holder := holder.(type) {
	case map[string]any:
		holder[at.(string)] = another(at.(string), holder[at.(string)])
	case []any:
		holder[at.(int)] = another("", holder[at.(int)])
	}
	return holder
}

// remove removes a list item.
func remove(holder, at any) any { return slices.Delete(holder.([]any), at.(int), at.(int)+1) }

// repeat appends a copy of a list item.
func repeat(holder, at any) any {
	return append(holder.([]any), runtime.DeepCopyJSONValue(holder.([]any)[at.(int)]))
}

// alter applies a disturbance at a path, and returns the altered value. In the data of a Secret, alter adds otherData
// instead of applying the disturbance. ok is false if the path does not exist.
func alter(value any, path []any, how disturbance) (altered any, ok bool) {
	switch at := value.(type) {
	case map[string]any:
		key := path[0].(string)
		inner, found := at[key]
		switch {
		case !found:
			return value, false
		case len(path) == 1:
			return how(value, key), true
		}
		if data, ok := inner.(map[string]any); ok && key == "data" && at["kind"] == "Secret" {
			data[path[1].(string)] = otherData + data[path[1].(string)].(string)
			return at, true
		}
		at[key], ok = alter(inner, path[1:], how)
		return at, ok
	case []any:
		n := path[0].(int)
		switch {
		case n >= len(at):
			return value, false
		case len(path) == 1:
			return how(value, n), true
		}
		at[n], ok = alter(at[n], path[1:], how)
		return at, ok
	default:
		return value, false
	}
}

// otherData is a valid prefix for base64 data. It changes the decoded data.
const otherData = "eHh4"

// others maps names of fields to a second valid value.
var others = map[string]any{
	"cpu": "250m", "memory": "32Mi", "type": "Localhost", "pathType": "Exact", "path": "/else", "mountPath": "/else",
	"apiVersion": "extensions/v1",
	"targetPort": int64(1234), "host": "else.example.com", "maxUnavailable": int64(2), "key": "else",
}

// another returns a different value of the same type for a field.
func another(key string, value any) any {
	if other, ok := others[key]; ok && other != value {
		return other
	}
	switch value := value.(type) {
	case string:
		return value + "x"
	case bool:
		return !value
	case int64:
		return value + 1
	case float64:
		return value + 1
	default:
		return nil
	}
}

// waitCorrected waits until a child equals before, except for the fields whose drift the operator does not correct.
// path is the path of the changed field.
func waitCorrected(t *testing.T, client dynamic.Interface, c childType, before *unstructured.Unstructured, path []any) {
	t.Helper()
	watched := func(object *unstructured.Unstructured) map[string]any {
		fields := asWritten(object)
		for _, path := range c.unwatched {
			unstructured.RemoveNestedField(fields, path...)
		}
		return fields
	}
	framework.Eventually(t, fmt.Sprintf("%v of %s to be corrected", path, c.Resource),
		func(context.Context) (bool, error) {
			return cmp.Equal(watched(before), watched(c.get(t, client, before.GetNamespace()))), nil
		})
}
