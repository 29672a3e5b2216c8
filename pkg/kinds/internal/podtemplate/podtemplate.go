// Package podtemplate merges the field podTemplate of a spec into a generated Pod template.
package podtemplate

import (
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	kjson "sigs.k8s.io/json"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

// Merge returns a generated Pod template with over, the podTemplate of a spec, merged into it as `kubectl patch` does
// by default. own is the name of the generated container. Merge does not change generated. An error is a sentence
// without a full stop, in one line, for the author of the spec, and names the field.
//
// over may change everything except what the operator relies on, and what has a field of its own: the generated labels
// and annotations, the ServiceAccount, the image, command and arguments of the generated container, and the generated
// volumes, mounts and ports.
func Merge(generated *corev1.PodTemplateSpec, over *v1alpha1.PodTemplate, own string) (*corev1.PodTemplateSpec, error) {
	if over == nil {
		return generated, nil
	}
	merged, err := checked(generated, over, own)
	if err != nil {
		return nil, errors.New(pods.OneLine(err.Error()))
	}
	return merged, nil
}

// checked merges over, and returns an error if over changes what it may not change.
func checked(
	generated *corev1.PodTemplateSpec, over *v1alpha1.PodTemplate, own string,
) (*corev1.PodTemplateSpec, error) {
	merged, err := merge(generated, over)
	if err != nil {
		return nil, err
	}
	if err := checkMetadata(generated, over); err != nil {
		return nil, err
	}
	if err := checkPod(&generated.Spec, &merged.Spec, own); err != nil {
		return nil, err
	}
	return merged, checkHandlers(&merged.Spec, own)
}

// merge returns the result of a strategic merge patch, which it decodes strictly.
func merge(generated *corev1.PodTemplateSpec, over *v1alpha1.PodTemplate) (merged *corev1.PodTemplateSpec, err error) {
	defer func() {
		if reason := recover(); reason != nil { // package strategicpatch panics on some values
			err = fmt.Errorf("podTemplate cannot be merged: %v", reason)
		}
	}()
	original, err := json.Marshal(generated)
	if err != nil {
		return nil, fmt.Errorf("the generated Pod template cannot be encoded: %w", err)
	}
	patch, err := json.Marshal(over)
	if err != nil {
		return nil, fmt.Errorf("podTemplate cannot be encoded: %w", err)
	}
	if err := checkSize(patch); err != nil {
		return nil, err
	}
	// package strategicpatch may panic on a value of a wrong type
	if err := json.Unmarshal(patch, &corev1.PodTemplateSpec{}); err != nil {
		return nil, fmt.Errorf("podTemplate has a value of a wrong type: %w", err)
	}
	text, err := strategicpatch.StrategicMergePatch(original, patch, corev1.PodTemplateSpec{})
	if err != nil {
		return nil, fmt.Errorf("podTemplate cannot be merged: %w", err)
	}
	merged = &corev1.PodTemplateSpec{}
	strict, err := kjson.UnmarshalStrict(text, merged, kjson.DisallowUnknownFields)
	if err := utilerrors.NewAggregate(append(strict, err)); err != nil {
		return nil, fmt.Errorf("podTemplate is invalid: %w", err)
	}
	return merged, nil
}

// Canonical returns the podTemplate of a spec as a JSON value that does not depend on the order of its fields. over is
// not nil. If it cannot be decoded, Merge returns an error for it.
func Canonical(over *v1alpha1.PodTemplate) (value any) {
	text, err := json.Marshal(over)
	if err != nil || json.Unmarshal(text, &value) != nil {
		return nil
	}
	return value
}
