//go:build integration

package integration

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/conditions"
	"windlass.dev/windlass/test/framework"
)

// TestApplySetPrunesNoChild applies an object of each kind three times with `kubectl apply --prune --applyset`. kubectl
// labels the objects that it applies, and deletes all other objects that have the label and a type of the set. The set
// therefore also contains an object of each child type.
func TestApplySetPrunesNoChild(t *testing.T) {
	forAll(t, func(t *testing.T, o owner) {
		namespace := shared.NewNamespace(t)
		createEverything(t, o, shared, namespace)
		resource := v1alpha1.SchemeGroupVersion.WithResource(o.name + "s")
		applySetThrice(t, namespace, resource, nameOf(o, namespace), o.clusterScoped)
	})
	t.Run("at", func(t *testing.T) {
		t.Parallel()
		namespace := shared.NewNamespace(t)
		shared.Create(t, namespace, "migrate", "true", nil)
		shared.InPhase(t, namespace, "migrate", cnatv1.AtDone)
		applySetThrice(t, namespace, ats, "migrate", false)
	})
}

var ats = cnatv1.SchemeGroupVersion.WithResource("ats")

// applySetThrice applies an object, and an object of each type that the operator creates, three times as an ApplySet.
// It checks that nothing else in the namespace changes.
func applySetThrice(
	t *testing.T, namespace string, resource schema.GroupVersionResource, name string, clusterScoped bool,
) {
	t.Helper()
	client, namespaceOf := dynamicClient(t), namespace
	if clusterScoped {
		namespaceOf = metav1.NamespaceNone
	}
	objects := client.Resource(resource).Namespace(namespaceOf)
	applied, err := objects.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	set := append(neighbours(t), map[string]any{
		"apiVersion": applied.GetAPIVersion(), "kind": applied.GetKind(),
		"metadata": map[string]any{"name": name}, "spec": applied.Object["spec"],
	})
	manifests, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": set})
	if err != nil {
		t.Fatal(err)
	}
	before := contents(t, client, namespace, applied.GetUID())
	for range 3 {
		output, err := shared.Kubectl(t.Context(), string(manifests),
			"apply", "-n", namespace, "--prune", "--applyset=configmaps/set", "-f", "-")
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(output, "pruned") {
			t.Errorf("kubectl pruned children:\n%s", output)
		}
		reconcileOnce(t, objects, name)
	}
	if diff := cmp.Diff(before, contents(t, client, namespace, applied.GetUID())); diff != "" {
		t.Errorf("the objects that are not in the set (-before +after):\n%s", diff)
	}
}

// neighbourName is the name of the objects that neighbours returns.
const neighbourName = "neighbour"

// neighbours returns an object of each type that the operator creates.
func neighbours(t *testing.T) (all []any) {
	t.Helper()
	manifests := map[schema.GroupVersionResource]string{
		podsResource: `{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"name":"theirs","image":"theirs:1"}]}}`,
	}
	for _, o := range owners {
		for _, c := range o.children {
			manifests[c.GroupVersionResource] = c.theirs
		}
	}
	for _, manifest := range manifests {
		object := &unstructured.Unstructured{}
		if err := json.Unmarshal([]byte(manifest), &object.Object); err != nil {
			t.Fatal(err)
		}
		object.SetName(neighbourName)
		all = append(all, object.Object)
	}
	return all
}

var podsResource = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

// contents returns the metadata and the spec or data of the children in a namespace, except for the objects of the
// ApplySet and the object with the UID applied. For objects without a status, the metadata includes the resource
// version.
func contents(t *testing.T, client dynamic.Interface, namespace string, applied types.UID) map[string]any {
	t.Helper()
	resources := map[schema.GroupVersionResource]bool{podsResource: true}
	for _, o := range owners {
		for _, c := range o.children {
			resources[c.GroupVersionResource] = true
		}
	}
	found := map[string]any{}
	for resource := range maps.Keys(resources) {
		list, err := client.Resource(resource).Namespace(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range list.Items {
			if object.GetUID() == applied || strings.HasPrefix(object.GetName(), neighbourName) || object.GetName() == "set" {
				continue
			}
			fields := asWritten(&object)
			if _, hasStatus := object.Object["status"]; !hasStatus {
				fields["resourceVersion"] = object.GetResourceVersion()
			}
			found[resource.Resource+" "+object.GetName()] = fields
		}
	}
	return found
}

// reconcileOnce pauses and resumes an object. It returns when the operator has reconciled the newest version of the
// object.
func reconcileOnce(t *testing.T, objects dynamic.ResourceInterface, name string) {
	t.Helper()
	for _, value := range []string{`"true"`, "null"} {
		patch := `{"metadata":{"annotations":{"` + controller.PausedAnnotation + `":` + value + `}}}`
		_, err := objects.Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		framework.Eventually(t, "the object to be reconciled", func(ctx context.Context) (bool, error) {
			object, err := objects.Get(ctx, name, metav1.GetOptions{})
			return err == nil && isPaused(object) == (value == `"true"`), err
		})
	}
}

// isPaused reports whether the condition Paused of an object is True.
func isPaused(object *unstructured.Unstructured) bool {
	all, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	return slices.ContainsFunc(all, func(condition any) bool {
		fields, _ := condition.(map[string]any)
		return fields["type"] == conditions.Paused && fields["status"] == string(metav1.ConditionTrue)
	})
}
