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
)

// RecordAnnotation on a child holds what was wanted of it last, without data.
const RecordAnnotation = "windlass.dev/last-applied"

// dataFields are those of ConfigMaps and Secrets that are wholly the owner's, and
// customFields those of custom resources.
var dataFields, customFields = []string{"data", "binaryData"}, []string{"spec"}

// whole are the fields that are wholly the owner's.
func (t *Type[T]) whole() []string {
	if t.Custom {
		return customFields
	}
	return dataFields
}

// fieldsOf are the fields of an object that somebody may want: all but its status.
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

// patch returns what makes live what is wanted, or nil if it is that already. The
// patch names the very version that it is for.
func (t *Type[T]) patch(w wish[T], live T) ([]byte, error) {
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

// includes tells whether a value has all that a part of it has, so that there is nothing to
// merge. Lists are taken by position: those that others have added to are left to a merge.
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

// keepReferences adds to the owner of a child those that others have given it.
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
	_ = unstructured.SetNestedSlice(modified, there, path...) // what holds it is a map
}

// onlyFor is the text of a patch that holds for one version of an object alone.
func onlyFor(live metav1.Object, patch map[string]any) ([]byte, error) {
	for field, value := range map[string]string{"uid": string(live.GetUID()), "resourceVersion": live.GetResourceVersion()} {
		if err := unstructured.SetNestedField(patch, value, "metadata", field); err != nil {
			return nil, err
		}
	}
	return json.Marshal(patch)
}

// lastWanted is what the live child's record says, as far as it decides what is
// taken out. A record that somebody has broken says nothing. A child that outlives its owner
// then loses every label that is not wanted: by one of them somebody may delete it.
func (t *Type[T]) lastWanted(live T, modified, current map[string]any) map[string]any {
	original := map[string]any{}
	if err := json.Unmarshal([]byte(live.GetAnnotations()[RecordAnnotation]), &original); err != nil || original == nil {
		original = map[string]any{}
	}
	if labels, _, _ := unstructured.NestedMap(current, "metadata", "labels"); t.Outlives && len(original) == 0 && len(labels) > 0 {
		original["metadata"] = map[string]any{"labels": labels}
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

// mergePatch returns the three-way JSON merge patch of a custom resource, or nil if there is
// nothing to do.
func mergePatch(live metav1.Object, original, modified, current map[string]any) ([]byte, error) {
	texts, err := texts(original, modified, current)
	if err != nil {
		return nil, err
	}
	text, err := jsonmergepatch.CreateThreeWayJSONMergePatch(texts[0], texts[1], texts[2])
	if err != nil {
		return nil, fmt.Errorf("making a patch: %w", err)
	}
	var patch map[string]any
	if err := json.Unmarshal(text, &patch); err != nil || len(patch) == 0 {
		return nil, err
	}
	return onlyFor(live, patch)
}

// strategicPatch returns the three-way strategic merge patch, or nil if it would leave all as it
// is: then it only repeats the order of a list to which others have added.
func (t *Type[T]) strategicPatch(want, live T, original, modified, current map[string]any) ([]byte, error) {
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
		return nil, fmt.Errorf("making a patch: %w", err)
	}
	result, err := strategicpatch.StrategicMergePatchUsingLookupPatchMeta(texts[2], text, meta)
	if err != nil {
		return nil, fmt.Errorf("trying a patch: %w", err)
	}
	var patch, patched map[string]any
	if err := errors.Join(json.Unmarshal(text, &patch), json.Unmarshal(result, &patched)); err != nil {
		return nil, err
	}
	c.replaceLists(patch, patched)
	if is, err := fieldsOf(live); err != nil || equality.Semantic.DeepEqual(patched, is) {
		return nil, err
	}
	return onlyFor(live, patch)
}

// texts are objects as JSON.
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
