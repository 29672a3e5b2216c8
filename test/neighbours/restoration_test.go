//go:build integration

package neighbours

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

// TestRestoredObjectsKeepVolumesAndRunNothingTwice restores a backup in another cluster, as docs/operations.md
// describes, in the order of Velero: first claims, Secrets, ConfigMaps and ServiceAccounts, last custom resources. The
// objects get new UIDs. They lose their owner references, and get their previous status.
func TestRestoredObjectsKeepVolumesAndRunNothingTwice(t *testing.T) {
	t.Parallel()
	namespace := shared.NewNamespace(t)
	apply(t, namespace, list(without(inGit(t, namespace), "Platform", namespace)))
	const all = 4
	framework.Eventually(t, "the objects to be Ready", func(ctx context.Context) (bool, error) {
		_, ready, err := unready(ctx, namespace)
		return ready == all, err
	})
	backup := backUp(t, namespace)

	other := framework.Own(t)
	if _, err := other.Kubectl(t.Context(), "", "create", "namespace", namespace); err != nil {
		t.Fatal(err)
	}
	p := framework.Launch(t, other.Cluster)
	defer p.Terminate()
	for _, object := range backup {
		restore(t, other, object)
	}
	claim, err := other.Kube.CoreV1().PersistentVolumeClaims(namespace).Get(t.Context(), "orders", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	other.DatabaseIn(t, namespace, "orders", v1alpha1.DatabaseReady)
	other.AppIn(t, namespace, "web", v1alpha1.AppReady)
	after, err := other.Kube.CoreV1().PersistentVolumeClaims(namespace).Get(t.Context(), "orders", metav1.GetOptions{})
	if err != nil || after.UID != claim.UID {
		t.Errorf("the restored claim was replaced: %v", err)
	}
	// The database on the server outside of the cluster belongs to the object with the previous UID.
	conflict := other.ExternalDatabaseReason(t, namespace, "outside", "NameConflict")
	if conflict.Status.Phase != v1alpha1.ExternalDatabaseFailed {
		t.Errorf("the restored ExternalDatabase is %s", conflict.Status.Phase)
	}
	pods, err := other.Kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range pods.Items {
		if strings.HasPrefix(pods.Items[i].Name, "migrate") {
			t.Errorf("the command of the restored At runs again in Pod %s", pods.Items[i].Name)
		}
	}
}

// backUp returns the objects of a namespace that docs/operations.md names, in the order in which Velero restores them.
func backUp(t *testing.T, namespace string) (backup []unstructured.Unstructured) {
	t.Helper()
	objects, err := objectsOf(t.Context(), namespace, slices.Concat(others[3:4], others[0:2], others[5:6], kinds[:4]))
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		created := object.GetLabels()["app.kubernetes.io/managed-by"] == "windlass" &&
			object.GetKind() != "PersistentVolumeClaim"
		if len(object.GetOwnerReferences()) > 0 || created || given[object.GetKind()+" "+object.GetName()] {
			continue
		}
		if object.GetKind() == "At" {
			if err := unstructured.SetNestedField(object.Object, true, "spec", "suspend"); err != nil {
				t.Fatal(err)
			}
		}
		backup = append(backup, object)
	}
	return backup
}

// restore creates an object of a backup without the fields that a cluster sets, and gives it its previous status.
func restore(t *testing.T, in *framework.Installation, object unstructured.Unstructured) {
	t.Helper()
	for _, field := range []string{
		"uid", "resourceVersion", "generation", "creationTimestamp", "ownerReferences", "managedFields",
	} {
		unstructured.RemoveNestedField(object.Object, "metadata", field)
	}
	if object.GetKind() == "PersistentVolumeClaim" { // Velero binds it to the restored volume
		unstructured.RemoveNestedField(object.Object, "spec", "volumeName")
		for _, annotation := range []string{
			"pv.kubernetes.io/bind-completed", "pv.kubernetes.io/bound-by-controller", "volume.kubernetes.io/selected-node",
			"volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner",
		} {
			unstructured.RemoveNestedField(object.Object, "metadata", "annotations", annotation)
		}
	}
	status := object.Object["status"]
	delete(object.Object, "status")
	text, err := json.Marshal(object.Object)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in.Kubectl(t.Context(), string(text), "create", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	if status == nil || !strings.Contains(object.GetAPIVersion(), ".") {
		return
	}
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in.Kubectl(t.Context(), "", "patch", strings.ToLower(object.GetKind()), object.GetName(), "-n",
		object.GetNamespace(), "--subresource=status", "--type=merge", "-p", string(patch)); err != nil {
		t.Fatal(err)
	}
}
