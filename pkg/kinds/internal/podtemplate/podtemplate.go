// Package podtemplate merges the field podTemplate of a spec into a generated Pod template.
package podtemplate

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	kjson "sigs.k8s.io/json"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

// OverridesAnnotation on a Pod template has a digest of the fields of the spec that can replace operator fields. The
// template therefore changes with these fields, even if only operator fields change.
const OverridesAnnotation = controller.AnnotationDomain + "/overrides-digest"

// Merge returns a generated Pod template with over, the podTemplate of a spec, merged into it as `kubectl patch` does
// by default. Merge does not change generated. An error is a sentence without a full stop, in one line, for the author
// of the spec, and names the field.
//
// over may change everything except the fields that rules names, and what the operator always relies on: the generated
// labels, annotations, volumes, mounts and ports.
func Merge(
	generated *corev1.PodTemplateSpec, over *cnatv1.PodTemplate, rules Rules,
) (merged *corev1.PodTemplateSpec, err error) {
	if over == nil {
		return generated, nil
	}
	if merged, err = merge(generated, over); err == nil {
		err = cmp.Or(checkMetadata(generated, over), rules.check(generated, merged))
	}
	if err != nil {
		return nil, errors.New(pods.OneLine(err.Error()))
	}
	return merged, nil
}

// merge returns the result of a strategic merge patch, which it decodes strictly.
func merge(generated *corev1.PodTemplateSpec, over *cnatv1.PodTemplate) (merged *corev1.PodTemplateSpec, err error) {
	defer func() {
		if reason := recover(); reason != nil { // package strategicpatch panics on some values
			err = fmt.Errorf("spec.podTemplate cannot be merged: %v", reason)
		}
	}()
	original, err := asMap(generated)
	if err != nil {
		return nil, fmt.Errorf("encoding the generated Pod template: %w", err)
	}
	patch, err := patchOf(over)
	if err != nil {
		return nil, err
	}
	keepNewObjects(patch, original)
	result, err := strategicpatch.StrategicMergeMapPatch(original, patch, corev1.PodTemplateSpec{})
	if err != nil {
		return nil, fmt.Errorf("spec.podTemplate cannot be merged: %w", err)
	}
	text, err := json.Marshal(result)
	if err != nil {
		return nil, fmt.Errorf("encoding the merged Pod template: %w", err)
	}
	merged = &corev1.PodTemplateSpec{}
	strict, err := kjson.UnmarshalStrict(text, merged, kjson.DisallowUnknownFields)
	if err := utilerrors.NewAggregate(append(strict, err)); err != nil {
		// A merged list begins with the items of podTemplate, so that the paths are those in podTemplate.
		problems := strings.ReplaceAll(err.Error(), `"spec.`, `"spec.podTemplate.spec.`)
		return nil, fmt.Errorf("spec.podTemplate is invalid: %s", problems)
	}
	sortGenerated(merged, generated)
	return merged, nil
}

// patchOf returns a podTemplate as a patch, whose fields have the types of a Pod template: package strategicpatch may
// panic on others.
func patchOf(over *cnatv1.PodTemplate) (map[string]any, error) {
	text, err := json.Marshal(over)
	if err != nil {
		return nil, fmt.Errorf("spec.podTemplate cannot be encoded: %w", err)
	}
	if len(text) > maxBytes {
		return nil, fmt.Errorf("spec.podTemplate has %d bytes; it must have at most %d", len(text), maxBytes)
	}
	patch := map[string]any{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(text, &patch); err != nil {
		return nil, fmt.Errorf("spec.podTemplate cannot be decoded: %w", err)
	}
	if err := checkPatch("spec.podTemplate", patch, 0); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &corev1.PodTemplateSpec{}); err != nil {
		return nil, fmt.Errorf("spec.podTemplate has a value of a wrong type: %w", err)
	}
	return patch, nil
}

func asMap(template *corev1.PodTemplateSpec) (fields map[string]any, err error) {
	text, err := json.Marshal(template)
	if err != nil {
		return nil, err
	}
	return fields, kjson.UnmarshalCaseSensitivePreserveInts(text, &fields)
}

// directive is the key of a patch that says how an object or a list is merged. Its value is replaceObject or
// deleteObject.
const directive, replaceObject, deleteObject = "$patch", "replace", "delete"

// keepNewObjects removes `$patch: replace` from each object of patch that original lacks. Package strategicpatch would
// drop these objects.
func keepNewObjects(patch, original any) {
	switch patch := patch.(type) {
	case map[string]any:
		fields, _ := original.(map[string]any)
		for key, value := range patch {
			if object, ok := value.(map[string]any); ok && fields[key] == nil && object[directive] == replaceObject {
				delete(object, directive)
			}
			keepNewObjects(value, fields[key])
		}
	case []any:
		items, _ := original.([]any)
		for _, value := range patch {
			item, _ := value.(map[string]any)
			i := slices.IndexFunc(items, func(other any) bool {
				fields, _ := other.(map[string]any)
				return fields["name"] != nil && fields["name"] == item["name"]
			})
			if i < 0 {
				keepNewObjects(value, nil)
			} else {
				keepNewObjects(value, items[i])
			}
		}
	}
}

// sortGenerated moves the generated containers, and their generated variables, to the beginning. The first container is
// the default of `kubectl logs`, and a variable can only refer to variables before it.
func sortGenerated(merged, generated *corev1.PodTemplateSpec) {
	for _, c := range generated.Spec.Containers {
		if is := pods.Container(merged, c.Name); is != nil {
			is.Env = generatedFirst(is.Env, c.Env, func(v corev1.EnvVar) string { return v.Name })
		}
	}
	merged.Spec.Containers = generatedFirst(merged.Spec.Containers, generated.Spec.Containers,
		func(c corev1.Container) string { return c.Name })
}

// generatedFirst returns items in the order of the items of generated with the same names, followed by the others.
func generatedFirst[T any](items, generated []T, nameOf func(T) string) []T {
	place := func(item T) int {
		i := slices.IndexFunc(generated, func(other T) bool { return nameOf(other) == nameOf(item) })
		if i < 0 {
			return len(generated)
		}
		return i
	}
	slices.SortStableFunc(items, func(a, b T) int { return place(a) - place(b) })
	return items
}

// SetOverrides sets OverridesAnnotation in a Pod template to a digest of over, the podTemplate of a spec, and of
// others, the other values of the spec that can replace operator fields.
func SetOverrides(template *corev1.PodTemplateSpec, over *cnatv1.PodTemplate, others ...any) {
	text, err := json.Marshal(append([]any{canonical(over)}, others...))
	if err != nil {
		return // values of a spec can be encoded
	}
	const length = 16
	sum := sha256.Sum256(text)
	metav1.SetMetaDataAnnotation(&template.ObjectMeta, OverridesAnnotation, hex.EncodeToString(sum[:])[:length])
}

// canonical returns the podTemplate of a spec as a JSON value that does not depend on the order of its fields, or nil
// for nil. If it cannot be decoded, Merge returns an error for it.
func canonical(over *cnatv1.PodTemplate) (value any) {
	text, err := json.Marshal(over)
	if err != nil || json.Unmarshal(text, &value) != nil {
		return nil
	}
	return value
}
