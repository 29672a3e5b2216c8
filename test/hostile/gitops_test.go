//go:build integration

package hostile

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
	"windlass.dev/windlass/test/place"
	"windlass.dev/windlass/test/world"
)

// tracking are the labels by which GitOps tools recognise the objects that they have applied, and a user's own label.
var tracking = map[string]string{
	"app.kubernetes.io/instance": "storefront", "argocd.argoproj.io/instance": "storefront",
	"kustomize.toolkit.fluxcd.io/name": "storefront", "kustomize.toolkit.fluxcd.io/namespace": "flux-system",
	"kapp.k14s.io/app": "1700000000", "team": "storefront",
}

// prune deletes the objects that a GitOps tool deletes after all manifests were removed from git: all objects that
// have one of the labels and no owner reference.
func prune(t *testing.T, in *place.Tenant, labels map[string]string) {
	t.Helper()
	for _, resource := range []schema.GroupVersionResource{
		corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), corev1.SchemeGroupVersion.WithResource("secrets"),
		corev1.SchemeGroupVersion.WithResource("services"), {Group: "apps", Version: "v1", Resource: "statefulsets"},
		{Group: "apps", Version: "v1", Resource: "deployments"}, v1alpha1.SchemeGroupVersion.WithResource("apps"),
	} {
		objects := in.Dynamic.Resource(resource).Namespace(in.Namespace)
		for key, value := range labels {
			list, err := objects.List(t.Context(), metav1.ListOptions{LabelSelector: key + "=" + value})
			if err != nil {
				t.Fatal(err)
			}
			for _, object := range list.Items {
				if len(object.GetOwnerReferences()) > 0 {
					continue
				}
				if err := objects.Delete(t.Context(), object.GetName(), metav1.DeleteOptions{}); world.IgnoreNotFound(err) != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// label adds the labels in tracking to a Database.
func label(t *testing.T, in *place.Tenant, name string) *v1alpha1.Database {
	t.Helper()
	return in.UpdateDatabase(t, in.Namespace, name, func(db *v1alpha1.Database) {
		if db.Labels == nil {
			db.Labels = map[string]string{}
		}
		maps.Copy(db.Labels, tracking)
	})
}

func claimOf(t *testing.T, in *place.Tenant, name string) *corev1.PersistentVolumeClaim {
	t.Helper()
	claim, err := in.Kube.CoreV1().PersistentVolumeClaims(in.Namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return claim
}

// waitLabelled waits until the StatefulSet of a Database has the labels of GitOps tools. The StatefulSet is the
// last object that a reconcile writes.
func waitLabelled(t *testing.T, in *place.Tenant, name string) {
	t.Helper()
	world.Eventually(t, "the StatefulSet to have the labels", func(ctx context.Context) (bool, error) {
		set, err := in.Kube.AppsV1().StatefulSets(in.Namespace).Get(ctx, name, metav1.GetOptions{})
		return err == nil && set.Labels["kapp.k14s.io/app"] != "", world.IgnoreNotFound(err)
	})
}

// TestGitOpsPruneKeepsVolume deletes all objects that have the labels of Argo CD, Flux or kapp and no owner,
// as these tools do.
func TestGitOpsPruneKeepsVolume(t *testing.T) {
	t.Parallel()
	tenant := shared.NewTenant(t)
	tenant.CreateDatabase(t, tenant.Namespace, "orders", world.SmallestDatabase())
	tenant.DatabaseIn(t, tenant.Namespace, "orders", v1alpha1.DatabaseReady)
	label(t, tenant, "orders")
	waitLabelled(t, tenant, "orders")
	before := claimOf(t, tenant, "orders")
	prune(t, tenant, tracking)
	after := claimOf(t, tenant, "orders")
	if after.UID != before.UID || after.DeletionTimestamp != nil {
		t.Errorf("the claim was deleted or replaced: %v", after.ObjectMeta)
	}
	want := map[string]string{"app.kubernetes.io/name": "database", "app.kubernetes.io/managed-by": "windlass"}
	if !maps.Equal(after.Labels, want) {
		t.Errorf("the claim has the labels %v, want %v", after.Labels, want)
	}
}

// TestReconcileRemovesFormerLabelsOfClaim gives a claim the labels that earlier versions set.
func TestReconcileRemovesFormerLabelsOfClaim(t *testing.T) {
	t.Parallel()
	tenant := shared.NewTenant(t)
	tenant.CreateDatabase(t, tenant.Namespace, "orders", world.SmallestDatabase())
	tenant.DatabaseIn(t, tenant.Namespace, "orders", v1alpha1.DatabaseReady)
	label(t, tenant, "orders")
	waitLabelled(t, tenant, "orders")
	set, err := tenant.Kube.AppsV1().StatefulSets(tenant.Namespace).Get(t.Context(), "orders", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	claim := claimOf(t, tenant, "orders")
	labels := map[string]any{"app.kubernetes.io/name": "database", "app.kubernetes.io/managed-by": "windlass"}
	for key, value := range tracking {
		labels[key] = value
	}
	labels["app.kubernetes.io/instance"] = "orders"
	var record map[string]any
	if err := json.Unmarshal([]byte(claim.Annotations["windlass.dev/last-applied"]), &record); err != nil {
		t.Fatal(err)
	}
	if err := unstructured.SetNestedMap(record, labels, "metadata", "labels"); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(record)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"labels": labels, "annotations": map[string]string{"windlass.dev/last-applied": string(text)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	claims := tenant.Kube.CoreV1().PersistentVolumeClaims(tenant.Namespace)
	if _, err := claims.Patch(t.Context(), "orders", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	world.Eventually(t, "the claim to lose its labels", func(ctx context.Context) (bool, error) {
		claim, err := claims.Get(ctx, "orders", metav1.GetOptions{})
		return err == nil && len(claim.Labels) == 2, err
	})
	prune(t, tenant, tracking)
	if after := claimOf(t, tenant, "orders"); after.UID != claim.UID || after.DeletionTimestamp != nil {
		t.Errorf("the claim was deleted or replaced: %v", after.ObjectMeta)
	}
	now, err := tenant.Kube.AppsV1().StatefulSets(tenant.Namespace).Get(t.Context(), "orders", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if now.Generation != set.Generation {
		t.Errorf("PostgreSQL restarts: the StatefulSet has generation %d, want %d", now.Generation, set.Generation)
	}
}
