//go:build integration

package neighbours

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"windlass.dev/windlass/test/framework"
)

// kinds are the resources of Windlass' kinds. The last one is cluster-scoped.
var kinds = []schema.GroupVersionResource{
	{Group: "windlass.dev", Version: "v1alpha1", Resource: "apps"},
	{Group: "windlass.dev", Version: "v1alpha1", Resource: "databases"},
	{Group: "windlass.dev", Version: "v1alpha1", Resource: "externaldatabases"},
	{Group: "cnat.programming-kubernetes.info", Version: "v1", Resource: "ats"},
	{Group: "windlass.dev", Version: "v1alpha1", Resource: "platforms"},
}

// others are the other resources with objects in a namespace that the operator or a team creates.
var others = []schema.GroupVersionResource{
	{Version: "v1", Resource: "secrets"}, {Version: "v1", Resource: "configmaps"}, {Version: "v1", Resource: "services"},
	{Version: "v1", Resource: "persistentvolumeclaims"}, {Version: "v1", Resource: "pods"},
	{Version: "v1", Resource: "serviceaccounts"}, {Group: "apps", Version: "v1", Resource: "deployments"},
	{Group: "apps", Version: "v1", Resource: "replicasets"}, {Group: "apps", Version: "v1", Resource: "statefulsets"},
	{Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"},
	{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"},
	{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"},
}

// objectsOf returns the objects of some resources in a namespace, and the Platform with the name of the namespace.
func objectsOf(ctx context.Context, namespace string, resources []schema.GroupVersionResource) (
	found []unstructured.Unstructured, err error,
) {
	all, err := dynamic.NewForConfig(shared.Config())
	if err != nil {
		return nil, err
	}
	for _, resource := range resources {
		if resource.Resource == "platforms" {
			platform, err := all.Resource(resource).Get(ctx, namespace, metav1.GetOptions{})
			if framework.IgnoreNotFound(err) != nil {
				return nil, err
			}
			if err == nil {
				found = append(found, *platform)
			}
			continue
		}
		list, err := all.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		found = append(found, list.Items...)
	}
	return found, nil
}

// contents returns the result of contentsOf, and fails the test after an error.
func contents(t *testing.T, namespace string) map[string]map[string]any {
	t.Helper()
	all, err := contentsOf(t.Context(), namespace)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// contentsOf returns what the objects in a namespace say, by kind and name: their metadata except for versions, and all
// fields except for the status. Two equal results mean that nothing was written, deleted or replaced in between.
func contentsOf(ctx context.Context, namespace string) (map[string]map[string]any, error) {
	objects, err := objectsOf(ctx, namespace, slices.Concat(kinds, others))
	if err != nil {
		return nil, err
	}
	all := map[string]map[string]any{}
	for _, object := range objects {
		name := object.GetKind() + " " + object.GetName()
		delete(object.Object, "status")
		for _, field := range []string{"resourceVersion", "managedFields"} {
			unstructured.RemoveNestedField(object.Object, "metadata", field)
		}
		unstructured.RemoveNestedField(object.Object, "metadata", "annotations", touched)
		if len(object.GetAnnotations()) == 0 {
			object.SetAnnotations(nil)
		}
		all[name] = object.Object
	}
	return all, nil
}

// differences returns how contents have changed, or "".
func differences(before, after map[string]map[string]any) string {
	var all strings.Builder
	names := slices.Concat(slices.Collect(maps.Keys(before)), slices.Collect(maps.Keys(after)))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if diff := cmp.Diff(before[name], after[name]); diff != "" {
			fmt.Fprintf(&all, "%s (-before +after):\n%s", name, diff)
		}
	}
	return all.String()
}

// unready returns the objects of Windlass' kinds in a namespace that are not Ready, with the reason, and how many are.
func unready(ctx context.Context, namespace string) (waiting []string, ready int, err error) {
	objects, err := objectsOf(ctx, namespace, kinds)
	if err != nil {
		return nil, 0, err
	}
	for _, object := range objects {
		state, message := stateOf(object)
		if state == "Ready" {
			ready++
			continue
		}
		waiting = append(waiting, fmt.Sprintf("%s %s: %s: %s", object.GetKind(), object.GetName(), state, message))
	}
	return waiting, ready, nil
}

// stateOf returns "Ready", or the reason and the message why an object is not Ready for its newest generation.
func stateOf(object unstructured.Unstructured) (state, message string) {
	observed, _, _ := unstructured.NestedInt64(object.Object, "status", "observedGeneration")
	if observed != object.GetGeneration() {
		return "Unobserved", ""
	}
	if phase, _, _ := unstructured.NestedString(object.Object, "status", "phase"); phase == "Done" {
		return "Ready", ""
	}
	all, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, condition := range all {
		c, _ := condition.(map[string]any)
		if c["type"] != "Ready" {
			continue
		}
		message, _ = c["message"].(string)
		if c["status"] == string(metav1.ConditionTrue) {
			return "Ready", message
		}
		reason, _ := c["reason"].(string)
		return reason, message
	}
	return "Unobserved", ""
}

// waitReady waits until at least one object of each of Windlass' kinds exists in a namespace, and all are Ready.
func waitReady(t *testing.T, namespace string) {
	t.Helper()
	var waiting []string
	t.Cleanup(func() {
		if t.Failed() && len(waiting) > 0 {
			t.Logf("not Ready:\n%s", strings.Join(waiting, "\n"))
		}
	})
	// the objects in Git, and the components of the Platform
	const all = 9
	framework.Eventually(t, "the objects in "+namespace+" to be Ready", func(ctx context.Context) (_ bool, err error) {
		var ready int
		waiting, ready, err = unready(ctx, namespace)
		return len(waiting) == 0 && ready == all, err
	})
}

// messagesOf returns the messages of the conditions of an object.
func messagesOf(object unstructured.Unstructured) (messages []string) {
	all, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, condition := range all {
		if c, ok := condition.(map[string]any); ok {
			messages = append(messages, fmt.Sprint(c["type"], "=", c["status"], " ", c["reason"], ": ", c["message"]))
		}
	}
	return messages
}
