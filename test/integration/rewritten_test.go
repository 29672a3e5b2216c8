//go:build integration

package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/conditions"
	"windlass.dev/windlass/test/framework"
)

// mutatingPolicy is a policy for the objects in a namespace. It changes the image of a StatefulSet, the resources of a
// Deployment and a label of a ConfigMap.
const mutatingPolicy = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: NAMESPACE}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAMESPACE}}
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments, statefulsets]}
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}
  mutations:
  - patchType: JSONPatch
    jsonPatch:
      expression: >
        object.kind == "StatefulSet" ?
        [JSONPatch{op: "replace", path: "/spec/template/spec/containers/0/image",
        value: "mirror.example.com/postgres"}] :
        object.kind == "Deployment" ?
        [JSONPatch{op: "replace", path: "/spec/template/spec/containers/0/resources/requests/cpu", value: "200m"}] :
        has(object.metadata.labels) && "app.kubernetes.io/name" in object.metadata.labels ?
        [JSONPatch{op: "replace", path: "/metadata/labels/app.kubernetes.io~1name", value: "renamed"}] : []
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: NAMESPACE}
spec: {policyName: NAMESPACE}
`

// applyPolicy applies mutatingPolicy to a namespace until the test ends, and returns when the policy has an effect.
func applyPolicy(t *testing.T, namespace string) {
	t.Helper()
	manifest := strings.ReplaceAll(mutatingPolicy, "NAMESPACE", namespace)
	if _, err := shared.Kubectl(t.Context(), manifest, "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := shared.Kubectl(context.Background(), manifest, "delete", "-f", "-"); err != nil {
			t.Error(err)
		}
	})
	probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: "probe", Labels: map[string]string{"app.kubernetes.io/name": "probe"},
	}}
	framework.Eventually(t, "the policy to have an effect", func(ctx context.Context) (bool, error) {
		dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
		made, err := shared.Kube.CoreV1().ConfigMaps(namespace).Create(ctx, probe, dry)
		return err == nil && made.Labels["app.kubernetes.io/name"] == "renamed", err
	})
}

// TestValuesThatPolicyChangesAreWrittenOnce creates an App and a Database in a namespace in which a policy changes
// their children.
func TestValuesThatPolicyChangesAreWrittenOnce(t *testing.T) {
	t.Parallel()
	namespace, client := shared.NewNamespace(t), dynamicClient(t)
	applyPolicy(t, namespace)
	app := v1alpha1.AppSpec{Image: "shop:1", Config: map[string]string{"a": "b"}}
	app.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
	db := framework.SmallestDatabase()
	db.UpdatePolicy = v1alpha1.UpdateManual
	shared.CreateApp(t, namespace, "shop", app)
	shared.CreateDatabase(t, namespace, "db", db)
	shared.AppIn(t, namespace, "shop", v1alpha1.AppReady)
	ready := shared.DatabaseIn(t, namespace, "db", v1alpha1.DatabaseReady)
	apps := client.Resource(v1alpha1.SchemeGroupVersion.WithResource("apps"))
	databases := client.Resource(v1alpha1.SchemeGroupVersion.WithResource("databases"))
	for range 3 {
		reconcileOnce(t, apps.Namespace(namespace), "shop")
		reconcileOnce(t, databases.Namespace(namespace), "db")
	}
	wantPatches(t, namespace)
	if pending := ready.Status.PendingRestart; len(pending) > 0 {
		t.Errorf("status.pendingRestart is %v, want nothing: the operator has applied the spec", pending)
	}
	shared.UpdateApp(t, namespace, "shop", func(app *v1alpha1.App) {
		app.Spec.Image, app.Spec.Replicas = "shop:2", new(int32(2))
	})
	shared.AppIn(t, namespace, "shop", v1alpha1.AppReady)
	shared.UpdateDatabase(t, namespace, "db", func(db *v1alpha1.Database) { db.Spec.Image = "postgres:17.7" })
	shared.DatabaseWith(t, namespace, "db", "waiting for a restart", func(db *v1alpha1.Database) bool {
		return slices.Equal(db.Status.PendingRestart, []string{"spec.image"})
	})
	reconcileOnce(t, apps.Namespace(namespace), "shop")
	wantPatches(t, namespace, "patch deployments "+namespace+"/shop")
	wantWarnings(t, namespace, "ConfigMap shop-db4a7ecb114bc66c: metadata.labels[app.kubernetes.io/name]",
		"Deployment shop: spec.template.spec.containers[0].resources.requests.cpu",
		"StatefulSet db: spec.template.spec.containers[0].image")
}

// wantPatches fails the test unless the operator has sent exactly these patches of ConfigMaps, Deployments and
// StatefulSets in a namespace.
func wantPatches(t *testing.T, namespace string, want ...string) {
	t.Helper()
	got := requestsWith(t, func(r framework.Request) bool {
		return r.ObjectRef.Namespace == namespace && r.Verb == "patch" &&
			slices.Contains([]string{"configmaps", "deployments", "statefulsets"}, r.ObjectRef.Resource)
	})
	if !slices.Equal(want, got) {
		t.Errorf("patches (-want +got):\n%s", cmp.Diff(want, got))
	}
}

// wantWarnings waits until there is exactly one Event for each of the given fields. The Event says that the API server
// keeps another value.
func wantWarnings(t *testing.T, namespace string, want ...string) {
	t.Helper()
	framework.Eventually(t, fmt.Sprintf("the warnings %v", want), func(ctx context.Context) (bool, error) {
		list, err := shared.Kube.EventsV1().Events(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		var got []string
		for _, event := range list.Items {
			if event.Reason != "ChangedByAdmission" {
				continue
			}
			note := strings.TrimPrefix(event.Note, "The API server stores other values in ")
			kind, rest, _ := strings.Cut(note, " "+namespace+"/")
			name, rest, _ := strings.Cut(rest, " than the operator writes: ")
			field, _, _ := strings.Cut(rest, ". Most likely")
			got = append(got, kind+" "+name+": "+field)
		}
		slices.Sort(got)
		return slices.Equal(want, got), nil
	})
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
