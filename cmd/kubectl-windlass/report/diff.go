package report

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	udiff "github.com/aymanbagabas/go-udiff"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/kinds/app"
	"windlass.dev/windlass/pkg/plan"
)

// isRetried reports whether the operator repeats a rejected write, after it has read the object again.
func isRetried(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err)
}

// rejection returns the text of the error of a rejected write. The API server quotes fields of an object in its
// messages. For a Secret, rejection therefore returns only the names of the fields.
func rejection(w *plan.Write) string {
	if w.Resource.Resource != "secrets" {
		return w.Err.Error()
	}
	return RejectionOfSecret(w.Err)
}

// RejectionOfSecret returns the reason of an error about a Secret, and the names of the invalid fields.
func RejectionOfSecret(err error) string {
	text := string(apierrors.ReasonForError(err))
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Details != nil {
		for _, cause := range status.Status().Details.Causes {
			text += " " + cause.Field
		}
	}
	return strings.TrimSpace(text + " (not shown: the message of the API server can contain data of the Secret)")
}

// contextLines is the number of unchanged lines before and after a difference.
const contextLines = 3

// diff returns a unified diff of two versions of an object as YAML, without status and without the fields that the API
// server sets. For a new object, before is nil. For a deleted object, after is nil, and diff returns "".
func diff(before, after *unstructured.Unstructured) (string, error) {
	if after == nil {
		return "", nil
	}
	a, b := visible(before), visible(after)
	mask(a, b)
	texts := [2]string{}
	for i, fields := range []map[string]any{a, b} {
		if fields == nil {
			continue
		}
		text, err := yaml.Marshal(fields)
		if err != nil {
			return "", fmt.Errorf("printing %s %s/%s: %w", after.GetKind(), after.GetNamespace(), after.GetName(), err)
		}
		texts[i] = string(text)
	}
	if texts[0] == texts[1] {
		return "", nil
	}
	edits := udiff.Lines(texts[0], texts[1])
	unified, err := udiff.ToUnified("", "", texts[0], edits, contextLines)
	if err != nil {
		return "", fmt.Errorf("comparing %s %s/%s: %w", after.GetKind(), after.GetNamespace(), after.GetName(), err)
	}
	_, unified, _ = strings.Cut(unified, "\n") // removes the lines --- and +++, which have no names
	_, unified, _ = strings.Cut(unified, "\n")
	if before == nil {
		_, unified, _ = strings.Cut(unified, "\n") // removes the line @@, because all lines are new
	}
	return unified, nil
}

// hidden are annotations with a copy of other fields.
var hidden = []string{corev1.LastAppliedConfigAnnotation, children.RecordAnnotation, app.SpecAnnotation}

// visible returns the fields of an object that users write.
func visible(obj *unstructured.Unstructured) map[string]any {
	if obj == nil {
		return nil
	}
	fields := obj.DeepCopy().Object
	delete(fields, "status")
	for _, field := range []string{
		"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink", "deletionTimestamp",
		"deletionGracePeriodSeconds",
	} {
		unstructured.RemoveNestedField(fields, "metadata", field)
	}
	for _, name := range hidden {
		unstructured.RemoveNestedField(fields, "metadata", "annotations", name)
	}
	if notes, ok, _ := unstructured.NestedMap(fields, "metadata", "annotations"); ok && len(notes) == 0 {
		unstructured.RemoveNestedField(fields, "metadata", "annotations")
	}
	if ip, _, _ := unstructured.NestedString(fields, "spec", "clusterIP"); ip != "None" && obj.GetKind() == "Service" {
		// a dry run assigns an address that the Service does not get
		for _, field := range []string{"clusterIP", "clusterIPs"} {
			unstructured.RemoveNestedField(fields, "spec", field)
		}
	}
	if owners, ok, _ := unstructured.NestedSlice(fields, "metadata", "ownerReferences"); ok {
		for _, owner := range owners {
			if owner, ok := owner.(map[string]any); ok {
				delete(owner, "uid")
			}
		}
		_ = unstructured.SetNestedSlice(fields, owners, "metadata", "ownerReferences") // metadata is a map
	}
	return fields
}

// The texts in place of a hidden value.
const (
	maskSet       = "(set)"
	maskUnchanged = "(unchanged)"
	maskChanged   = "(changed)"
)

// mask replaces the data of Secrets, and the digests with which the operator recognizes a change of such data.
func mask(before, after map[string]any) {
	if after["kind"] == "Secret" {
		for _, field := range []string{"data", "stringData"} {
			maskEach(before, after, func(string) bool { return true }, field)
		}
	}
	maskEach(before, after, isDigest, "metadata", "annotations")
	maskEach(before, after, isDigest, "spec", "template", "metadata", "annotations")
}

// isDigest reports whether an annotation has the digest of data.
func isDigest(annotation string) bool {
	_, name, ok := strings.Cut(annotation, "/")
	return ok && (strings.HasSuffix(name, "-digest") || name == "inputs")
}

// maskEach replaces the values at a path whose names are secret.
func maskEach(before, after map[string]any, secret func(name string) bool, path ...string) {
	was, _, _ := unstructured.NestedFieldNoCopy(before, path...)
	is, _, _ := unstructured.NestedFieldNoCopy(after, path...)
	old, _ := was.(map[string]any)
	values, _ := is.(map[string]any)
	for name, value := range values {
		previous, existed := old[name]
		switch {
		case !secret(name):
		case !existed:
			values[name] = maskSet
		case reflect.DeepEqual(previous, value):
			values[name], old[name] = maskUnchanged, maskUnchanged
		default:
			values[name], old[name] = maskChanged, maskSet
		}
	}
	for name := range old {
		if _, stays := values[name]; !stays && secret(name) {
			old[name] = maskSet
		}
	}
}
