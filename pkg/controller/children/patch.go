package children

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"windlass.dev/windlass/pkg/controller"
)

// RecordAnnotation is the annotation that holds the record of a child: the last desired state, without the fields that
// belong entirely to the owner, such as the data of a Secret or the spec of a custom resource.
const RecordAnnotation = controller.AnnotationDomain + "/last-applied"

// dataFields are the fields of ConfigMaps and Secrets that belong to the owner as a whole. customFields
// are the fields of custom resources that belong to the owner as a whole.
var dataFields, customFields = []string{"data", "binaryData"}, []string{"spec"}

// whole returns the fields that belong to the owner as a whole.
func (t *Type[T]) whole() []string {
	if t.Custom {
		return customFields
	}
	return dataFields
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
	// patch has the UID and version of the child as its precondition.
	patch []byte
	// differences are the fields that the patch changes.
	differences []difference
}

// newChange returns the change of live, whose fields are observed, by a patch to the fields desired.
func newChange(live metav1.Object, patch, desired, observed map[string]any) (*change, error) {
	text, err := onlyFor(live, patch)
	return &change{text, differences("", desired, observed)}, err
}

// change returns the change that brings live to the desired state, or nil if there is no difference.
func (t *Type[T]) change(w desiredState[T], live T) (*change, error) {
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
	if t.Custom {
		keepReferences(modified, current)
	}
	original := t.lastWanted(live, modified, current)
	if t.Custom {
		if includes(current, modified) && includes(modified, original) {
			return nil, nil
		}
		return mergePatch(live, original, modified, current)
	}
	return t.strategicPatch(w.object, live, original, modified, current)
}

// includes reports whether all has every field of part, so that there is nothing to merge. It compares
// lists by position. It returns false for a list to which other clients added items, because that list
// needs a merge.
func includes(all, part any) bool {
	switch part := part.(type) {
	case map[string]any:
		all, ok := all.(map[string]any)
		if !ok {
			return false
		}
		for key, value := range part {
			if is, there := all[key]; !there || !includes(is, value) {
				return false
			}
		}
		return true
	case []any:
		all, ok := all.([]any)
		return ok && slices.EqualFunc(all, part, includes)
	default:
		return all == part
	}
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
	for field, value := range map[string]string{"uid": string(live.GetUID()), "resourceVersion": live.GetResourceVersion()} {
		if err := unstructured.SetNestedField(patch, value, "metadata", field); err != nil {
			return nil, err
		}
	}
	return json.Marshal(patch)
}

// lastWanted returns the state that was desired last, from which a merge derives the fields to remove. It
// consists of the record, without Yielded fields that are no longer desired, and of the observed fields that
// belong to the owner as a whole. lastWanted ignores a record that cannot be read.
func (t *Type[T]) lastWanted(live T, modified, current map[string]any) map[string]any {
	original := map[string]any{}
	if err := json.Unmarshal([]byte(live.GetAnnotations()[RecordAnnotation]), &original); err != nil || original == nil {
		original = map[string]any{}
	}
	for _, field := range t.whole() {
		delete(original, field)
		if data, ok := current[field]; ok {
			original[field] = data
		}
	}
	for _, path := range t.Yielded {
		if _, wanted, _ := unstructured.NestedFieldNoCopy(modified, path...); !wanted {
			unstructured.RemoveNestedField(original, path...)
		}
	}
	return original
}

// mergePatch returns the change of a custom resource by a three-way JSON merge patch, or nil if there is no difference.
func mergePatch(live metav1.Object, original, modified, current map[string]any) (*change, error) {
	texts, err := texts(original, modified, current)
	if err != nil {
		return nil, err
	}
	text, err := jsonmergepatch.CreateThreeWayJSONMergePatch(texts[0], texts[1], texts[2])
	if err != nil {
		return nil, fmt.Errorf("computing a patch: %w", err)
	}
	var patch map[string]any
	if err := json.Unmarshal(text, &patch); err != nil || len(patch) == 0 {
		return nil, err
	}
	return newChange(live, patch, merged(current, patch), current)
}

// strategicPatch returns the change by a three-way strategic merge patch, or nil if the patch would change nothing. For
// example, the patch of a list to which other clients added items may only repeat the order of the list.
func (t *Type[T]) strategicPatch(want, live T, original, modified, current map[string]any) (*change, error) {
	meta, err := strategicpatch.NewPatchMetaFromStruct(want)
	if err != nil {
		return nil, err
	}
	var c claims
	c.fields(meta, nil, "", original, modified, current)
	if len(c.replaced) == 0 && includes(current, modified) && includes(modified, original) {
		return nil, nil
	}
	texts, err := texts(original, modified, current)
	if err != nil {
		return nil, err
	}
	text, err := strategicpatch.CreateThreeWayMergePatch(texts[0], texts[1], texts[2], meta, true)
	if err != nil {
		return nil, fmt.Errorf("computing a patch: %w", err)
	}
	result, err := strategicpatch.StrategicMergePatchUsingLookupPatchMeta(texts[2], text, meta)
	if err != nil {
		return nil, fmt.Errorf("applying a computed patch: %w", err)
	}
	var patch, patched map[string]any
	if err := errors.Join(json.Unmarshal(text, &patch), json.Unmarshal(result, &patched)); err != nil {
		return nil, err
	}
	c.replaceLists(patch, patched)
	is, err := fieldsOf(live)
	if err != nil || equality.Semantic.DeepEqual(patched, is) {
		return nil, err
	}
	return newChange(live, patch, patched, is)
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
