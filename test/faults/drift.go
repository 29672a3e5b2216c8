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

// Faults at a point of rest in which a user changes a field or list item of a child. The name of such a fault consists
// of the change, the child and a JSON pointer, for example removed-services-shop:/spec/ports/0.
const (
	fieldChanged = "changed"
	fieldRemoved = "removed"
	itemRepeated = "repeated" // a copy of a list item is appended
)

// recordAnnotation is the annotation that holds the record of a child: the state that the operator desired last.
const recordAnnotation = "windlass.dev/last-applied"

// patchOperation is an operation of a JSON patch.
type patchOperation struct {
	Op    string `json:"op"`
	From  string `json:"from,omitempty"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// driftFaults returns the faults in which a user changes a field that the operator sets in a child. It skips
// excludedDrifts, and changes that the API server rejects or undoes in a dry run.
func (r *run) driftFaults(o *object) (faults []string) {
	for _, fault := range r.fieldFaults(desiredState(o), "") {
		fault = strings.Replace(fault, "-", "-"+r.dashedName(o)+":", 1)
		if slices.Contains(excludedDrifts, fault) {
			continue
		}
		patch, ok := r.driftPatch(o, fault)
		if !ok {
			continue
		}
		text, _ := json.Marshal(patch) // values decoded from JSON can always be encoded
		resp := r.bridge.do(call{
			method: http.MethodPatch, path: resources[o.resource].path(o.Namespace, o.Name, "") + "?dryRun=All",
			contentType: string(types.JSONPatchType), body: text, resource: -1,
		})
		if resp.err != nil {
			r.addViolation("trying %s in a dry run: %v", fault, resp.err)
		}
		if resp.status >= http.StatusMultipleChoices || equalContent(o.raw, resp.body) {
			r.outcome.points.rejectedDrifts++
			continue
		}
		faults = append(faults, fault)
	}
	return faults
}

// excludedDrifts are changes that the operator deliberately does not undo. Users may change or remove a password, and
// they may enlarge a volume. A claim without annotations does not name its Database.
var excludedDrifts = []string{
	fieldChanged + "-secrets-shop-credentials:/data/password",
	fieldRemoved + "-secrets-shop-credentials:/data/password", fieldRemoved + "-secrets-shop-credentials:/data",
	fieldChanged + "-persistentvolumeclaims-shop:/spec/resources/requests/storage",
	fieldRemoved + "-persistentvolumeclaims-shop:/metadata/annotations",
	fieldRemoved + "-persistentvolumeclaims-ns-db:/metadata/annotations",
}

// desiredState returns the fields that the operator sets in a child: the fields in the record, and the annotation that
// holds the record. If the record has no field data or spec, desiredState returns the whole field of the child.
func desiredState(o *object) map[string]any {
	var all, desired map[string]any
	if json.Unmarshal(o.raw, &all) != nil || json.Unmarshal([]byte(o.Annotations[recordAnnotation]), &desired) != nil {
		return nil
	}
	for _, field := range []string{"data", "spec"} {
		if whole, ok := all[field]; ok && desired[field] == nil {
			desired[field] = whole
		}
	}
	metadata, _ := desired["metadata"].(map[string]any)
	// A name cannot be changed, and the loss of the owner reference is the fault objectUnowned.
	for _, field := range []string{"name", "namespace", "ownerReferences"} {
		delete(metadata, field)
	}
	annotations, ok := metadata["annotations"].(map[string]any)
	if !ok {
		annotations = map[string]any{}
		metadata["annotations"] = annotations
	}
	annotations[recordAnnotation] = ""
	return desired
}

// fieldFaults returns the faults of a value, without the name of the child: the change of each scalar, the removal of
// each field and list item, and the repetition of each list item. pointer is the JSON pointer to the value.
func (r *run) fieldFaults(value any, pointer string) (faults []string) {
	add := func(name string, field any) {
		path := pointer + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
		faults = append(append(faults, fieldRemoved+"-"+path), r.fieldFaults(field, path)...)
	}
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			add(key, value[key])
		}
	case []any:
		for i, item := range value {
			add(strconv.Itoa(i), item)
			faults = append(faults, fmt.Sprintf("%s-%s/%d", itemRepeated, pointer, i))
		}
	default:
		faults = append(faults, fieldChanged+"-"+pointer)
	}
	return faults
}

// driftPatch returns the JSON patch that a fault sends for an object. It returns false if the fault is about another
// object, or if the object lacks the field that the fault changes.
func (r *run) driftPatch(o *object, fault string) ([]patchOperation, bool) {
	name, pointer, _ := strings.Cut(fault, ":")
	action, child, _ := strings.Cut(name, "-")
	if child != r.dashedName(o) {
		return nil, false
	}
	list := pointer[:max(strings.LastIndex(pointer, "/"), 0)]
	switch action {
	case fieldChanged:
		var all any
		if err := json.Unmarshal(o.raw, &all); err != nil {
			return nil, false
		}
		value := otherValue(pointer[len(list)+1:], valueAt(all, pointer))
		return []patchOperation{{Op: "replace", Path: pointer, Value: value}}, value != nil
	case fieldRemoved:
		return []patchOperation{{Op: "remove", Path: pointer}}, true
	case itemRepeated:
		return []patchOperation{{Op: "copy", From: pointer, Path: list + "/-"}}, true
	}
	return nil, false
}

// valueAt returns the value at a JSON pointer, or nil if there is none.
func valueAt(value any, pointer string) any {
	for name := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		name = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
		switch parent := value.(type) {
		case map[string]any:
			value = parent[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i >= len(parent) {
				return nil
			}
			value = parent[i]
		default:
			return nil
		}
	}
	return value
}

// otherValues has a valid value for each field that accepts only certain values, by the name of the field.
var otherValues = map[string]any{
	"cpu": "250m", "memory": "32Mi", "type": "Localhost", "pathType": "Exact", "path": "/else", "mountPath": "/else",
	"targetPort": 1234, "host": "else.example.com", "maxUnavailable": 2, "key": "else",
}

// otherValue returns a different value of the same type for a field. It returns nil unless the value is a string,
// boolean or number.
func otherValue(field string, value any) any {
	if other, ok := otherValues[field]; ok && other != value {
		return other
	}
	switch value := value.(type) {
	case string:
		return "eHh4" + value // text in base64 remains valid
	case bool:
		return !value
	case float64:
		return value + 1
	}
	return nil
}

// equalContent reports whether two versions of an object are equal, apart from metadata that the API server sets.
func equalContent(a, b []byte) bool {
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

// isChild reports whether an object is a child of the scenario's object: it has a record, and either an owner of
// driftKind or no owner. A child without an owner outlives the scenario's object.
func (r *run) isChild(o *object) bool {
	_, recorded := o.Annotations[recordAnnotation]
	return recorded &&
		(len(o.OwnerReferences) == 0 || slices.ContainsFunc(o.OwnerReferences, func(ref metav1.OwnerReference) bool {
			return strings.EqualFold(ref.Kind, r.scenario.driftKind)
		}))
}
