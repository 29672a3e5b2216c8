package faults

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// What a user may do to a field of a child at a point of rest. The name of such a fault ends in
// the child and a JSON pointer.
const (
	isChanged  = "changed"
	isRemoved  = "removed"
	isRepeated = "repeated" // a list item, beside itself
)

// recordAnnotation is the one in which the operator keeps what it wanted of a child last.
const recordAnnotation = "windlass.dev/last-applied"

// operation is one of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	From  string `json:"from,omitempty"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// driftsOf are the faults that users can do to what the operator wants of a child: those that
// the API server accepts, and that change something. It is asked by dry runs.
func (r *run) driftsOf(o *object) (faults []string) {
	for _, fault := range r.faultsIn(wantedOf(o), "") {
		fault = strings.Replace(fault, "-", "-"+r.nameOf(o)+":", 1)
		if slices.Contains(undecided, fault) {
			continue
		}
		patch, ok := r.driftPatch(o, fault)
		if !ok {
			continue
		}
		text, _ := json.Marshal(patch) // its values were read from JSON
		answer := r.bridge.do(call{
			method: http.MethodPatch, path: resources[o.resource].path(o.Namespace, o.Name, "") + "?dryRun=All", contentType: string(types.JSONPatchType), body: text, resource: -1,
		})
		if answer.err != nil {
			r.violate("trying %s: %v", fault, answer.err)
		}
		if answer.status >= http.StatusMultipleChoices || sameBut(o.raw, answer.body) {
			r.outcome.record.refused++
			continue
		}
		faults = append(faults, fault)
	}
	return faults
}

// undecided are faults after which the end is another on purpose: a password is the user's to
// change, a volume may be larger than it was asked to be, and a claim without any mark of whom it
// was made for is nobody's.
var undecided = []string{
	isChanged + "-secrets-shop-credentials:/data/password", isRemoved + "-secrets-shop-credentials:/data/password", isRemoved + "-secrets-shop-credentials:/data",
	isChanged + "-persistentvolumeclaims-shop:/spec/resources/requests/storage", isRemoved + "-persistentvolumeclaims-shop:/metadata/annotations",
	isRemoved + "-persistentvolumeclaims-ns-db:/metadata/annotations",
}

// wantedOf is what the operator wants of a child: what its record says, the record itself, and
// what is wholly the operator's.
func wantedOf(o *object) map[string]any {
	var all, wanted map[string]any
	if json.Unmarshal(o.raw, &all) != nil || json.Unmarshal([]byte(o.Annotations[recordAnnotation]), &wanted) != nil {
		return nil
	}
	for _, field := range []string{"data", "spec"} {
		if whole, ok := all[field]; ok && wanted[field] == nil {
			wanted[field] = whole
		}
	}
	metadata, _ := wanted["metadata"].(map[string]any)
	// A name cannot be changed, and what becomes of the owner is a fault of its own.
	for _, field := range []string{"name", "namespace", "ownerReferences"} {
		delete(metadata, field)
	}
	annotations, ok := metadata["annotations"].(map[string]any)
	if !ok {
		annotations = map[string]any{}
		metadata["annotations"] = annotations
	}
	annotations[recordAnnotation] = ""
	return wanted
}

// faultsIn are a change of each value, a removal of each field and list item, and a repetition
// of each item.
func (r *run) faultsIn(value any, pointer string) (faults []string) {
	add := func(step string, inner any) {
		at := pointer + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(step)
		faults = append(append(faults, isRemoved+"-"+at), r.faultsIn(inner, at)...)
	}
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			add(key, value[key])
		}
	case []any:
		for i, item := range value {
			add(strconv.Itoa(i), item)
			faults = append(faults, fmt.Sprintf("%s-%s/%d", isRepeated, pointer, i))
		}
	default:
		faults = append(faults, isChanged+"-"+pointer)
	}
	return faults
}

// driftPatch is the JSON patch of a fault, if it is one of this object's.
func (r *run) driftPatch(o *object, fault string) ([]operation, bool) {
	name, pointer, _ := strings.Cut(fault, ":")
	what, of, _ := strings.Cut(name, "-")
	if of != r.nameOf(o) {
		return nil, false
	}
	list := pointer[:max(strings.LastIndex(pointer, "/"), 0)]
	switch what {
	case isChanged:
		var all any
		if err := json.Unmarshal(o.raw, &all); err != nil {
			return nil, false
		}
		value := another(pointer[len(list)+1:], valueAt(all, pointer))
		return []operation{{Op: "replace", Path: pointer, Value: value}}, value != nil
	case isRemoved:
		return []operation{{Op: "remove", Path: pointer}}, true
	case isRepeated:
		return []operation{{Op: "copy", From: pointer, Path: list + "/-"}}, true
	}
	return nil, false
}

// valueAt is what a JSON pointer leads to, or nil.
func valueAt(value any, pointer string) any {
	for step := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		switch at := value.(type) {
		case map[string]any:
			value = at[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i >= len(at) {
				return nil
			}
			value = at[i]
		default:
			return nil
		}
	}
	return value
}

// others are values that mean something else and are as valid.
var others = map[string]any{
	"cpu": "250m", "memory": "32Mi", "type": "Localhost", "pathType": "Exact", "path": "/else", "mountPath": "/else",
	"targetPort": 1234, "host": "else.example.com", "maxUnavailable": 2, "key": "else",
}

// another is another value than that of a field, of its type.
func another(field string, value any) any {
	if other, ok := others[field]; ok && other != value {
		return other
	}
	switch value := value.(type) {
	case string:
		return "eHh4" + value // data in base64 too
	case bool:
		return !value
	case float64:
		return value + 1
	}
	return nil
}

// sameBut tells whether two texts of an object differ in what each write changes alone.
func sameBut(a, b []byte) bool {
	var objects [2]map[string]any
	for i, text := range [][]byte{a, b} {
		if json.Unmarshal(text, &objects[i]) != nil {
			return false
		}
		metadata, _ := objects[i]["metadata"].(map[string]any)
		for _, field := range []string{"managedFields", "generation", "resourceVersion"} {
			delete(metadata, field)
		}
	}
	return cmp.Equal(objects[0], objects[1])
}

// isChild tells whether an object has the object of a scenario as its owner, or bears a record
// as what outlives that does.
func (r *run) isChild(o *object) bool {
	_, recorded := o.Annotations[recordAnnotation]
	return recorded && (len(o.OwnerReferences) == 0 || slices.ContainsFunc(o.OwnerReferences, func(ref metav1.OwnerReference) bool {
		return strings.EqualFold(ref.Kind, r.scenario.drifts)
	}))
}
