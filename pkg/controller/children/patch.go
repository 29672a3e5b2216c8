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

// last returns the last merge to try after a rejection. A child that outlives its owner holds data, so no merge follows
// a rejected merge. The first patch of such a child can still be by mergeFields: see change.
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
	schema strategicpatch.LookupPatchMeta, previous, desired, observed []byte,
) (patch, patched map[string]any, err error) {
	defer func() {
		if reason := recover(); reason != nil { // package strategicpatch panics on some values of a forged record
			err = fmt.Errorf("the record cannot be merged: %v", reason)
		}
	}()
	var text, result []byte
	if m == mergeItems {
		text, err = strategicpatch.CreateThreeWayMergePatch(previous, desired, observed, schema, true)
		if err == nil {
			result, err = strategicpatch.StrategicMergePatchUsingLookupPatchMeta(observed, text, schema)
		}
	} else {
		text, err = jsonmergepatch.CreateThreeWayJSONMergePatch(previous, desired, observed)
		if err == nil {
			result, err = jsonpatch.MergePatch(observed, text)
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
	desired, err := fieldsOf(w.object)
	if err != nil {
		return nil, err
	}
	if err := unstructured.SetNestedField(desired, w.record, "metadata", "annotations", RecordAnnotation); err != nil {
		return nil, err
	}
	observed, err := fieldsOf(live)
	if err != nil {
		return nil, err
	}
	if m != mergeItems {
		keepReferences(desired, observed)
	}
	if err := t.keepYielded(desired, observed); err != nil {
		return nil, err
	}
	previous := w.previousState(live, desired, observed, m)
	// Nothing is missing in the child, and there is nothing to remove.
	if includes(observed, desired) && includes(desired, previous) {
		return nil, nil
	}
	states, err := texts(previous, desired, observed)
	if err != nil {
		return nil, err
	}
	schema, err := strategicpatch.NewPatchMetaFromStruct(w.object)
	if err != nil {
		return nil, err
	}
	patch, patched, err := m.patches(schema, states[0], states[1], states[2])
	if m == mergeItems && (err != nil || !holds(schema, patched, desired) ||
		renamed(schema, previous, desired, observed)) {
		return t.change(w, live, mergeFields)
	}
	if err != nil {
		return nil, fmt.Errorf("computing a patch: %w", err)
	}
	if equality.Semantic.DeepEqual(patched, observed) { // the patch of a list may only repeat the order of the list
		return nil, nil
	}
	text, err := onlyFor(live, patch)
	return &change{m, text, differences("", patched, observed)}, err
}

// keepReferences adds to desired the owner references that only observed has.
func keepReferences(desired, observed map[string]any) {
	path := []string{"metadata", "ownerReferences"}
	want, _, _ := unstructured.NestedSlice(desired, path...)
	is, _, _ := unstructured.NestedSlice(observed, path...)
	uidOf := func(ref any) any { return ref.(map[string]any)["uid"] }
	for _, ref := range want {
		i := slices.IndexFunc(is, func(other any) bool { return uidOf(other) == uidOf(ref) })
		if i < 0 {
			is = append(is, ref)
			continue
		}
		is[i] = ref
	}
	_ = unstructured.SetNestedSlice(desired, is, path...) // its parent is a map
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

// previousState returns the state that was desired last, from which a merge derives the fields to remove. It
// consists of the record, and of the observed fields that belong to the owner as a whole. previousState ignores a
// record that cannot be read.
func (w desiredState[T]) previousState(live T, desired, observed map[string]any, m merge) map[string]any {
	previous := map[string]any{}
	if err := json.Unmarshal([]byte(live.GetAnnotations()[RecordAnnotation]), &previous); err != nil || previous == nil {
		previous = map[string]any{}
	}
	if w.adopts {
		_ = unstructured.SetNestedField(previous, "", "metadata", "annotations", AdoptAnnotation)
	}
	w.restoreDigests(previous, desired, observed)
	removeValues(previous, desired, observed)
	if m == mergeFields {
		removeInitContainers(previous, desired, observed)
	}
	for _, field := range m.whole() {
		delete(previous, field)
		if value, ok := observed[field]; ok {
			previous[field] = runtime.DeepCopyJSONValue(value)
		}
	}
	return previous
}

// podSpec is the path of the spec of the Pods in a workload.
var podSpec = []string{"spec", "template", "spec"}

// removeInitContainers makes a merge remove the init containers of other clients, if no init container is desired: it
// adds them to previous. A merge that replaces the list of volumes would otherwise keep init containers without their
// volumes.
func removeInitContainers(previous, desired, observed map[string]any) {
	was, _, _ := unstructured.NestedMap(previous, podSpec...)
	want, _, _ := unstructured.NestedMap(desired, podSpec...)
	is, _, _ := unstructured.NestedMap(observed, podSpec...)
	if containers, ok := is["initContainers"]; ok && was != nil && want["initContainers"] == nil {
		path := append(slices.Clone(podSpec), "initContainers")
		_ = unstructured.SetNestedField(previous, containers, path...) // was is a map
	}
}

// removeValues makes a merge remove the value of an environment variable that is desired without a value. Another
// client gave the variable this value, so neither the record nor the desired state has it. removeValues adds the value
// to previous, as if the value had been desired last:
//
//	previous  {name: A}  becomes  {name: A, value: x}
//	desired   {name: A}
//	observed  {name: A, value: x}  becomes, by the merge,  {name: A}
func removeValues(previous, desired, observed map[string]any) {
	containers := append(slices.Clone(podSpec), "containers")
	want, _, _ := unstructured.NestedSlice(desired, containers...)
	was, _, _ := unstructured.NestedSlice(previous, containers...)
	is, _, _ := unstructured.NestedSlice(observed, containers...)
	variables := func(all []any, container any) []any {
		list, _ := find(all, container, "name")["env"].([]any)
		return list
	}
	for _, container := range want {
		for _, variable := range variables(want, container) {
			before := find(variables(was, container), variable, "name")
			now := find(variables(is, container), variable, "name")
			fields, _ := variable.(map[string]any)
			hasOnlyName := len(fields) == 1
			for _, field := range []string{"value", "valueFrom"} {
				if value, ok := now[field]; ok && before != nil && hasOnlyName {
					before[field] = value
				}
			}
		}
	}
	if was != nil {
		_ = unstructured.SetNestedSlice(previous, was, containers...) // the path of was exists
	}
}

// keepYielded adds to desired the observed values of Yielded fields that are not desired.
func (t *Type[T]) keepYielded(desired, observed map[string]any) error {
	for _, path := range t.Yielded {
		_, isDesired, _ := unstructured.NestedFieldNoCopy(desired, path...)
		value, isObserved, _ := unstructured.NestedFieldCopy(observed, path...)
		if isDesired || !isObserved {
			continue
		}
		if err := unstructured.SetNestedField(desired, value, path...); err != nil {
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
