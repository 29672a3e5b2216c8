//go:build integration

package security

import (
	"context"
	"encoding/json"
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

// tracking are the labels by which GitOps tools recognise the objects that they have applied, and a user's own label.
var tracking = map[string]string{
	"app.kubernetes.io/instance": "storefront", "argocd.argoproj.io/instance": "storefront",
	"kustomize.toolkit.fluxcd.io/name": "storefront", "kustomize.toolkit.fluxcd.io/namespace": "flux-system",
	"kapp.k14s.io/app": "1700000000", "team": "storefront",
}

// label adds the labels in tracking to a Database, and returns when the operator has reconciled the labelled Database.
func label(t *testing.T, in *framework.Tenant, name string) {
	t.Helper()
	in.UpdateDatabase(t, in.Namespace, name, func(db *v1alpha1.Database) {
		if db.Labels == nil {
			db.Labels = map[string]string{}
		}
		maps.Copy(db.Labels, tracking)
		db.Spec.Parameters = map[string]v1alpha1.ParameterValue{"work_mem": "8MB"} // shows up in the status
	})
	in.DatabaseIn(t, in.Namespace, name, v1alpha1.DatabaseReady)
}

// TestReconcileRemovesRecordedLabels gives the children of a Database the labels of the Database, as if the operator
// had set them, and another label.
func TestReconcileRemovesRecordedLabels(t *testing.T) {
	t.Parallel()
	tenant := shared.NewTenant(t)
	tenant.CreateDatabase(t, tenant.Namespace, "orders", framework.SmallestDatabase())
	label(t, tenant, "orders")
	for resource, name := range map[schema.GroupVersionResource]string{
		corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"): "orders",
		corev1.SchemeGroupVersion.WithResource("secrets"):                "orders-credentials",
		corev1.SchemeGroupVersion.WithResource("services"):               "orders", {
			Group: "apps", Version: "v1", Resource: "statefulsets",
		}: "orders",
	} {
		objects := tenant.Dynamic.Resource(resource).Namespace(tenant.Namespace)
		child, err := objects.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		want := maps.Clone(child.GetLabels())
		want["backup"] = "daily"
		if _, err := objects.Patch(t.Context(), name, types.MergePatchType, withLabels(t, child),
			metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		framework.Eventually(t, resource.Resource+" to lose the labels of the Database, and no other label",
			func(ctx context.Context) (bool, error) {
				now, err := objects.Get(ctx, name, metav1.GetOptions{})
				if err == nil && (now.GetUID() != child.GetUID() || now.GetGeneration() != child.GetGeneration()) {
					t.Errorf("%s was replaced or has another spec: %v", resource.Resource, now)
				}
				return err == nil && maps.Equal(now.GetLabels(), want), err
			})
	}
}

// withLabels returns a patch that adds the labels in tracking to a child and to its record, and another label to the
// child.
func withLabels(t *testing.T, child *unstructured.Unstructured) []byte {
	t.Helper()
	const recordAnnotation = "windlass.dev/last-applied"
	labels := maps.Clone(tracking)
	for key, value := range child.GetLabels() {
		labels[key] = value
	}
	var record map[string]any
	if err := json.Unmarshal([]byte(child.GetAnnotations()[recordAnnotation]), &record); err != nil {
		t.Fatal(err)
	}
	record["metadata"].(map[string]any)["labels"] = maps.Clone(labels)
	text, err := json.Marshal(record)
	if err != nil {
		t.Fatal(err)
	}
	labels["backup"] = "daily"
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"labels": labels, "annotations": map[string]string{recordAnnotation: string(text)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return patch
}
