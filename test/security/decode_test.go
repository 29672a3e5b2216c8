//go:build integration

package security

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

var crds = schema.GroupVersionResource{
	Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
}

// poisoned maps resources and object names to specs that the API server accepts only after loosen has changed the CRDs.
var poisoned = map[schema.GroupVersionResource]map[string]string{
	v1alpha1.SchemeGroupVersion.WithResource("apps"): {
		"two-sorts": `{"image":"a","resources":{"requests":{"cpu":"1e5.5"}}}`,
		"slow":      `{"image":"a","resources":{"requests":{"cpu":"1e-100000000"}}}`,
		"divisor": `{"image":"a","env":[{"name":"A","valueFrom":{"resourceFieldRef":{"resource":"limits.cpu",` +
			`"divisor":"1e5.5"}}}]}`,
	},
	v1alpha1.SchemeGroupVersion.WithResource("databases"): {
		"resources": `{"version":"17","deletionPolicy":"Delete","storage":{"size":"1Gi"},` +
			`"resources":{"limits":{"memory":"1e5.5"}}}`,
		"storage": `{"version":"17","storage":{"size":"1e5.5"}}`,
	},
	v1alpha1.SchemeGroupVersion.WithResource("platforms"): {
		"poisoned": `{"namespace":"poisoned","components":[{"name":"db","database":{"version":"17",` +
			`"storage":{"size":"1e5.5"}}}]}`,
	},
	cnatv1.SchemeGroupVersion.WithResource("ats"): {
		"two-sorts": `{"schedule":"2020-01-01T00:00:00Z","command":["true"],"resources":{"requests":{"cpu":"1e5.5"}}}`,
		"slow":      `{"schedule":"2020-01-01T00:00:00Z","command":["true"],"resources":{"requests":{"cpu":"1e-100000000"}}}`,
	},
}

// kindOf maps resources to kinds.
var kindOf = map[string]string{"apps": "App", "databases": "Database", "platforms": "Platform", "ats": "At"}

// loosen removes the validation of quantities and all validation rules from the CRDs. It
// returns a function that restores the CRDs.
func loosen(t *testing.T, admin dynamic.Interface) (restore func()) {
	t.Helper()
	var before []unstructured.Unstructured
	for _, resource := range []string{
		"apps.windlass.dev", "databases.windlass.dev", "platforms.windlass.dev", "ats.cnat.programming-kubernetes.info",
	} {
		crd, err := admin.Resource(crds).Get(t.Context(), resource, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		before = append(before, *crd.DeepCopy())
		withoutRules(crd.Object)
		if _, err := admin.Resource(crds).Update(t.Context(), crd, metav1.UpdateOptions{}); err != nil {
			t.Fatalf("loosening a CRD: %v", err)
		}
	}
	return func() {
		t.Helper()
		for _, crd := range before {
			patch, err := json.Marshal([]map[string]any{
				{"op": "replace", "path": "/spec/versions", "value": crd.Object["spec"].(map[string]any)["versions"]},
			})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := admin.Resource(crds).Patch(t.Context(), crd.GetName(), types.JSONPatchType, patch,
				metav1.PatchOptions{}); err != nil {
				t.Fatalf("restoring a CRD: %v", err)
			}
		}
	}
}

// withoutRules removes the validation of quantities and all validation rules from a schema.
func withoutRules(node any) {
	switch node := node.(type) {
	case []any:
		for _, part := range node {
			withoutRules(part)
		}
	case map[string]any:
		delete(node, "x-kubernetes-validations")
		if node["x-kubernetes-int-or-string"] == true {
			delete(node, "pattern")
			delete(node, "maxLength")
			delete(node, "allOf")
		}
		for _, part := range node {
			withoutRules(part)
		}
	}
}

// store creates an object. It retries until the API server uses the changed CRD.
func store(t *testing.T, in dynamic.ResourceInterface, kind, version, name, spec string) {
	t.Helper()
	object := &unstructured.Unstructured{}
	text := fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q},"spec":%s}`, version, kind, name, spec)
	if err := object.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, kind+" "+name+" to be stored", func(ctx context.Context) (bool, error) {
		_, err := in.Create(ctx, object, metav1.CreateOptions{})
		return err == nil, ignoreInvalid(err)
	})
}

// ignoreInvalid returns nil for an Invalid error, and any other error unchanged. Callers retry after nil, because the
// API server needs some time to use a changed schema.
func ignoreInvalid(err error) error {
	if apierrors.IsInvalid(err) {
		return nil
	}
	return err
}

// forEachPoisoned calls do for every poisoned object. The client in is a client of the tenant for namespaced objects,
// and a client of admin for cluster-scoped objects.
func forEachPoisoned(
	tenant *framework.Tenant, admin dynamic.Interface, do func(
		in dynamic.ResourceInterface, resource schema.GroupVersionResource, name, spec string,
	),
) {
	for resource, objects := range poisoned {
		in := tenant.Dynamic.Resource(resource).Namespace(tenant.Namespace)
		if resource.Resource == "platforms" {
			in = admin.Resource(resource)
		}
		for name, spec := range objects {
			do(in, resource, name, spec)
		}
	}
}

// checkEveryKind checks that the operator reconciles a valid object of every kind. The name of the Platform contains
// round.
func checkEveryKind(t *testing.T, on *framework.Installation, round string) {
	t.Helper()
	canary(t, on)
	other := on.NewTenant(t)
	other.CreateDatabase(t, other.Namespace, "canary", framework.SmallestDatabase())
	other.DatabaseIn(t, other.Namespace, "canary", v1alpha1.DatabaseReady)
	other.Create(t, other.Namespace, "canary", "sleep infinity", nil)
	other.InPhase(t, other.Namespace, "canary", cnatv1.AtRunning)
	other.CreateExternalDatabase(t, other.Namespace, "canary", framework.EverythingOfExternalDatabase())
	other.ExternalDatabaseReason(t, other.Namespace, "canary", "DependencyMissing")
	on.CreatePlatform(t, "canary-"+round,
		v1alpha1.PlatformSpec{Namespace: "canary-" + round, Components: []v1alpha1.PlatformComponent{
			{Name: "web", App: &v1alpha1.AppSpec{Image: "registry.example.com/canary:1"}},
		}})
	on.PlatformIn(t, "canary-"+round, v1alpha1.PlatformReady)
}

func TestUndecodableObjectAffectsOnlyItself(t *testing.T) {
	t.Parallel()
	on := framework.Own(t)
	admin, err := dynamic.NewForConfig(on.Config())
	if err != nil {
		t.Fatal(err)
	}
	attacker := on.NewTenant(t)
	restore := loosen(t, admin)
	forEachPoisoned(attacker, admin, func(
		in dynamic.ResourceInterface, resource schema.GroupVersionResource, name, spec string,
	) {
		store(t, in, kindOf[resource.Resource], resource.GroupVersion().String(), name, spec)
	})
	restore()

	process := framework.Launch(t, on.Cluster)
	t.Cleanup(func() {
		if t.Failed() {
			_ = process.KeepLog("security-decode.log") // shows the cause of the failure
		}
	})
	checkEveryKind(t, on, "first")
	forEachPoisoned(attacker, admin, func(
		in dynamic.ResourceInterface, resource schema.GroupVersionResource, name, _ string,
	) {
		framework.Eventually(t, resource.Resource+" "+name+" to report that it cannot be read",
			func(ctx context.Context) (bool, error) {
				object, err := in.Get(ctx, name, metav1.GetOptions{})
				if err != nil {
					return false, err
				}
				conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
				text, err := json.Marshal(conditions)
				return strings.Contains(string(text), `"reason":"Unreadable"`) &&
					strings.Contains(string(text), "because it cannot be read: "), err
			})
	})
	metrics := process.Get(t, "/metrics")
	if !strings.Contains(metrics, `windlass_unreadable_objects{controller="app"} 3`) {
		t.Error("the metric windlass_unreadable_objects does not count 3 Apps")
	}
	old := on.Windlass.CnatV1alpha1().Ats(attacker.Namespace)
	list, err := on.Windlass.CnatV1alpha1().Ats("").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) < 3 {
		t.Errorf("listing Ats as v1alpha1: got %d, want at least 3: %v", len(list.Items), err)
	}
	if _, err := old.Get(t.Context(), "slow", metav1.GetOptions{}); err != nil {
		t.Errorf("reading an At as v1alpha1: %v", err)
	}

	if code := process.Terminate(); code != 0 {
		t.Errorf("the controller ended with exit code %d, want 0; its log:\n%s", code, process.Log.String())
	}
	process = framework.Launch(t, on.Cluster)
	defer process.Terminate()
	checkEveryKind(t, on, "second")
	forEachPoisoned(attacker, admin, func(in dynamic.ResourceInterface, _ schema.GroupVersionResource, name, _ string) {
		if err := in.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatalf("deleting %s: %v", name, err)
		}
	})
	forEachPoisoned(attacker, admin, func(
		in dynamic.ResourceInterface, resource schema.GroupVersionResource, name, _ string,
	) {
		framework.Eventually(t, resource.Resource+" "+name+" to be deleted", func(ctx context.Context) (bool, error) {
			_, err := in.Get(ctx, name, metav1.GetOptions{})
			return apierrors.IsNotFound(err), framework.IgnoreNotFound(err)
		})
	})
}
