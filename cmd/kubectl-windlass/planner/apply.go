package planner

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
)

// Apply plans what `kubectl apply` would do with an object. It returns the error of the API server.
func (p *Planner) Apply(ctx context.Context, mapping *meta.RESTMapping, obj *unstructured.Unstructured) error {
	client := p.client(mapping, obj.GetNamespace())
	modified, err := annotated(obj)
	if err != nil {
		return err
	}
	live, err := client.Get(ctx, obj.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		removeNulls(modified.Object)
		_, err = client.Create(ctx, modified, metav1.CreateOptions{
			FieldManager: fieldManager, FieldValidation: metav1.FieldValidationStrict,
		})
		return err
	}
	if err != nil {
		return err
	}
	patch, kind, err := threeWay(live, modified)
	if err != nil {
		return fmt.Errorf("comparing the manifest with the live object: %w", err)
	}
	if string(patch) == "{}" {
		return nil
	}
	_, err = client.Patch(ctx, obj.GetName(), kind, patch, metav1.PatchOptions{
		FieldManager: fieldManager, FieldValidation: metav1.FieldValidationStrict,
	})
	return err
}

const fieldManager = "kubectl-client-side-apply"

// Delete plans what `kubectl delete` would do with an object.
func (p *Planner) Delete(ctx context.Context, mapping *meta.RESTMapping, namespace, name string) error {
	background := metav1.DeletePropagationBackground
	return p.client(mapping, namespace).Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &background})
}

func (p *Planner) client(mapping *meta.RESTMapping, namespace string) dynamic.ResourceInterface {
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return p.Dynamic.Resource(mapping.Resource)
	}
	return p.Dynamic.Resource(mapping.Resource).Namespace(namespace)
}

// annotated returns obj with the annotation in which `kubectl apply` keeps the object that it applied last.
func annotated(obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	bare := obj.DeepCopy()
	unstructured.RemoveNestedField(bare.Object, "metadata", "annotations", corev1.LastAppliedConfigAnnotation)
	text, err := json.Marshal(bare.Object)
	if err != nil {
		return nil, err
	}
	annotations := bare.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[corev1.LastAppliedConfigAnnotation] = string(text) + "\n"
	bare.SetAnnotations(annotations)
	return bare, nil
}

// removeNulls removes fields with the value null, as `kubectl apply` does when it creates an object.
func removeNulls(value any) {
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			if inner == nil {
				delete(value, key)
			}
			removeNulls(inner)
		}
	case []any:
		for _, item := range value {
			removeNulls(item)
		}
	}
}

// threeWay returns the patch of `kubectl apply`: it sets the fields of modified, and removes the fields that were
// applied last and that modified lacks.
func threeWay(live, modified *unstructured.Unstructured) (patch []byte, kind types.PatchType, err error) {
	original := []byte(live.GetAnnotations()[corev1.LastAppliedConfigAnnotation])
	current, err := json.Marshal(live.Object)
	if err != nil {
		return nil, "", err
	}
	want, err := json.Marshal(modified.Object)
	if err != nil {
		return nil, "", err
	}
	typed, err := scheme.Scheme.New(live.GroupVersionKind())
	if err != nil { // a custom resource
		patch, err = jsonmergepatch.CreateThreeWayJSONMergePatch(original, want, current)
		return patch, types.MergePatchType, err
	}
	schema, err := strategicpatch.NewPatchMetaFromStruct(typed)
	if err != nil {
		return nil, "", err
	}
	patch, err = strategicpatch.CreateThreeWayMergePatch(original, want, current, schema, true)
	return patch, types.StrategicMergePatchType, err
}
