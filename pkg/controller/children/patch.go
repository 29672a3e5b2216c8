package children

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"windlass.dev/windlass/pkg/controller"
)

// RecordAnnotation is the annotation that holds the record of a child: the last desired state, without the fields that
// belong entirely to the owner, such as the data of a Secret or the spec of a custom resource.
const RecordAnnotation = controller.AnnotationDomain + "/last-applied"

// merge is a three-way merge of the record, the desired state and the observed state. If the API server rejects the
// result of a merge as invalid, the next merge keeps less of what other clients set.
type merge int

const (
	// mergeItems is a strategic merge. It keeps fields of other clients, and items that they added to lists.
	mergeItems merge = iota
	// mergeFields is a JSON merge. It keeps fields of other clients, and replaces lists.
	mergeFields
	// replaceSpec is a JSON merge that keeps only the Yielded fields of the observed spec.
	replaceSpec
)

// first returns the merge to begin with. The API server supports no strategic merge of custom resources.
func (t *Type[T]) first() merge {
	if t.Custom {
		return replaceSpec
	}
	return mergeItems
}

// last returns the last merge to try. A child that outlives its owner holds data, so no merge follows a rejected merge.
func (t *Type[T]) last() merge {
	if t.Outlives {
		return mergeItems
	}
	return replaceSpec
}

// whole returns the fields that belong to the owner as a whole. The merge takes their observed values for the state
// that was desired last.
func (m merge) whole() []string {
	if m == replaceSpec {
		return []string{"data", "binaryData", "spec"}
	}
	return []string{"data", "binaryData"} // of ConfigMaps and Secrets
}

// patches returns the patch that merges three states, and the observed state after the patch.
func (m merge) patches(
	schema strategicpatch.LookupPatchMeta, original, modified, current []byte,
) (patch, patched map[string]any, err error) {
	defer func() {
		if reason := recover(); reason != nil { // package strategicpatch panics on some values of a forged record
			err = fmt.Errorf("the record cannot be merged: %v", reason)
		}
	}()
	var text, result []byte
	if m == mergeItems {
		text, err = strategicpatch.CreateThreeWayMergePatch(original, modified, current, schema, true)
		if err == nil {
			result, err = strategicpatch.StrategicMergePatchUsingLookupPatchMeta(current, text, schema)
		}
	} else {
		text, err = jsonmergepatch.CreateThreeWayJSONMergePatch(original, modified, current)
		if err == nil {
			result, err = jsonpatch.MergePatch(current, text)
		}
	}
	if err == nil {
		err = errors.Join(json.Unmarshal(text, &patch), json.Unmarshal(result, &patched))
	}
	return patch, patched, err
}

// fieldsOf returns the fields of an object, except its status.
func fieldsOf(object any) (map[string]any, error) {
	text, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, err
	}
	delete(fields, "status")
	return fields, nil
}

// change brings a child to the desired state.
type change struct {
	merge merge
	// patch has the UID and version of the child as its precondition.
	patch []byte
	// differences are the fields that the patch changes.
	differences []difference
}

// change returns the change that brings live to the desired state by a merge, or nil if there is no difference. If the
// merge m cannot bring live to the desired state, the change is by a later merge.
func (t *Type[T]) change(w desiredState[T], live T, m merge) (*change, error) {
	modified, err := fieldsOf(w.object)
	if err != nil {
		return nil, err
	}
	if err := unstructured.SetNestedField(modified, w.record, "metadata", "annotations", RecordAnnotation); err != nil {
		return nil, err
	}
	current, err := fieldsOf(live)
	if err != nil {
		return nil, err
	}
	if m != mergeItems {
		keepReferences(modified, current)
	}
	if err := t.keepYielded(modified, current); err != nil {
		return nil, err
	}
	original := w.lastWanted(live, modified, current, m)
	if includes(current, modified) && includes(modified, original) {
		return nil, nil
	}
	states, err := texts(original, modified, current)
	if err != nil {
		return nil, err
	}
	schema, err := strategicpatch.NewPatchMetaFromStruct(w.object)
	if err != nil {
		return nil, err
	}
	patch, patched, err := m.patches(schema, states[0], states[1], states[2])
	if m == mergeItems && (err != nil || !holds(schema, patched, modified) ||
		renamed(schema, original, modified, current)) {
		return t.change(w, live, mergeFields)
	}
	if err != nil {
		return nil, fmt.Errorf("computing a patch: %w", err)
	}
	if equality.Semantic.DeepEqual(patched, current) { // the patch of a list may only repeat the order of the list
		return nil, nil
	}
	text, err := onlyFor(live, patch)
	return &change{m, text, differences("", patched, current)}, err
}

// keepReferences adds to modified the owner references that only current has.
func keepReferences(modified, current map[string]any) {
	path := []string{"metadata", "ownerReferences"}
	ours, _, _ := unstructured.NestedSlice(modified, path...)
	there, _, _ := unstructured.NestedSlice(current, path...)
	uidOf := func(ref any) any { return ref.(map[string]any)["uid"] }
	for _, ref := range ours {
		i := slices.IndexFunc(there, func(other any) bool { return uidOf(other) == uidOf(ref) })
		if i < 0 {
			there = append(there, ref)
			continue
		}
		there[i] = ref
	}
	_ = unstructured.SetNestedSlice(modified, there, path...) // its parent is a map
}

// onlyFor returns a patch with the UID and version of live as its precondition.
func onlyFor(live metav1.Object, patch map[string]any) ([]byte, error) {
	for field, value := range map[string]string{
		"uid": string(live.GetUID()), "resourceVersion": live.GetResourceVersion(),
	} {
		if err := unstructured.SetNestedField(patch, value, "metadata", field); err != nil {
			return nil, err
		}
	}
	return json.Marshal(patch)
}

// lastWanted returns the state that was desired last, from which a merge derives the fields to remove. It
// consists of the record, and of the observed fields that belong to the owner as a whole. lastWanted ignores a
// record that cannot be read.
func (w desiredState[T]) lastWanted(live T, modified, current map[string]any, m merge) map[string]any {
	original := map[string]any{}
	if err := json.Unmarshal([]byte(live.GetAnnotations()[RecordAnnotation]), &original); err != nil || original == nil {
		original = map[string]any{}
	}
	w.restoreDigests(original, modified, current)
	removeValues(original, modified, current)
	if m == mergeFields {
		removeInitContainers(original, modified, current)
	}
	for _, field := range m.whole() {
		delete(original, field)
		if value, ok := current[field]; ok {
			original[field] = runtime.DeepCopyJSONValue(value)
		}
	}
	return original
}

// podSpec is the path of the spec of the Pods in a workload.
var podSpec = []string{"spec", "template", "spec"}

// removeInitContainers makes a merge remove the init containers of other clients, if no init container is desired. A
// merge that replaces the list of volumes would otherwise keep init containers without their volumes.
func removeInitContainers(original, modified, current map[string]any) {
	was, _, _ := unstructured.NestedMap(original, podSpec...)
	pod, _, _ := unstructured.NestedMap(modified, podSpec...)
	there, _, _ := unstructured.NestedMap(current, podSpec...)
	if is, ok := there["initContainers"]; ok && was != nil && pod["initContainers"] == nil {
		_ = unstructured.SetNestedField(original, is, append(slices.Clone(podSpec), "initContainers")...) // was is a map
	}
}

// removeValues makes a merge remove the value of an environment variable that is desired without a value. Another
// client gave the variable this value, so neither the record nor the desired state has it.
func removeValues(original, modified, current map[string]any) {
	containers := append(slices.Clone(podSpec), "containers")
	wanted, _, _ := unstructured.NestedSlice(modified, containers...)
	was, _, _ := unstructured.NestedSlice(original, containers...)
	is, _, _ := unstructured.NestedSlice(current, containers...)
	variables := func(all []any, container any) []any {
		list, _ := find(all, container, "name")["env"].([]any)
		return list
	}
	for _, container := range wanted {
		for _, want := range variables(wanted, container) {
			before, now := find(variables(was, container), want, "name"), find(variables(is, container), want, "name")
			for _, field := range []string{"value", "valueFrom"} {
				if value, ok := now[field]; ok && before != nil && len(want.(map[string]any)) == 1 {
					before[field] = value
				}
			}
		}
	}
	if was != nil {
		_ = unstructured.SetNestedSlice(original, was, containers...) // the path of was exists
	}
}

// keepYielded adds to modified the observed values of Yielded fields that are not desired.
func (t *Type[T]) keepYielded(modified, current map[string]any) error {
	for _, path := range t.Yielded {
		_, desired, _ := unstructured.NestedFieldNoCopy(modified, path...)
		value, observed, _ := unstructured.NestedFieldCopy(current, path...)
		if desired || !observed {
			continue
		}
		if err := unstructured.SetNestedField(modified, value, path...); err != nil {
			return err
		}
	}
	return nil
}

// texts returns objects as JSON.
func texts(objects ...map[string]any) (all [][]byte, err error) {
	for _, object := range objects {
		text, err := json.Marshal(object)
		if err != nil {
			return nil, err
		}
		all = append(all, text)
	}
	return all, nil
}
