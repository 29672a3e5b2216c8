//go:build e2e

package e2e

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

// TestPlatformReleasesAppAfterItsTask corrects a failed task, and then changes the task and the App that depends on it
// together.
func TestPlatformReleasesAppAfterItsTask(t *testing.T) {
	t.Parallel()
	name := here.NewNamespace(t)
	release := func(line, version string) {
		t.Helper()
		here.UpdatePlatform(t, name, func(p *v1alpha1.Platform) {
			p.Spec.Components[0].App.Config = map[string]string{"version": version}
			p.Spec.Components[1].At.Command = []string{"sh", "-c", line}
		})
	}
	deployed := func() string {
		t.Helper()
		app, err := here.Windlass.WindlassV1alpha1().Apps(name).Get(t.Context(), name+"-web", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return app.Spec.Config["version"]
	}
	here.CreatePlatform(t, name, v1alpha1.PlatformSpec{Namespace: name, Components: []v1alpha1.PlatformComponent{
		{
			Name: "web", DependsOn: []v1alpha1.ComponentName{"migrate"}, App: &v1alpha1.AppSpec{
				Image: appImage(), Config: map[string]string{"version": "1"},
			},
		},
		{
			Name: "migrate", At: &v1.AtSpec{
				Schedule: "2020-01-01T00:00:00Z", Command: []string{"sh", "-c", "echo no table orders; exit 3"},
			},
		},
	}})
	failed := here.PlatformIn(t, name, v1alpha1.PlatformFailed)
	t.Logf("after a failed task: %s", meta.FindStatusCondition(failed.Status.Conditions, "Ready").Message)

	release("true", "1")
	here.PlatformIn(t, name, v1alpha1.PlatformReady)
	release("exit 4", "2")
	here.PlatformWith(t, name, "the failure of the second run", func(p *v1alpha1.Platform) bool {
		return p.Status.Phase == v1alpha1.PlatformFailed && len(p.Status.Components[1].Runs) == 3
	})
	if deployed() != "1" {
		t.Errorf("version %s was deployed although its task failed", deployed())
	}
	release("sleep 2", "2")
	ready := here.PlatformIn(t, name, v1alpha1.PlatformReady)
	if deployed() != "2" {
		t.Errorf("version %s is deployed, want 2", deployed())
	}
	for _, run := range ready.Status.Components[1].Runs {
		t.Logf("run: exit code %d, %s", *run.ExitCode, run.Reason)
	}
}

// TestNamespaceWithServerOfItsExternalDatabaseIsDeleted deletes a namespace with an ExternalDatabase, whose
// deletionPolicy is Delete, and with the Database that is its server.
func TestNamespaceWithServerOfItsExternalDatabaseIsDeleted(t *testing.T) {
	t.Parallel()
	namespace := here.NewNamespace(t)
	spec := postgresSpec()
	spec.OwnerAttributes = []v1alpha1.OwnerAttribute{v1alpha1.OwnerCreateDB, v1alpha1.OwnerCreateRole}
	here.CreateDatabase(t, namespace, "shop", spec)
	here.CreateExternalDatabase(t, namespace, "cart", v1alpha1.ExternalDatabaseSpec{
		ConnectionSecretRef: v1alpha1.SecretReference{Name: "shop-credentials"}, DatabaseName: "cart",
		DeletionPolicy: v1alpha1.DeletionDelete,
	})
	here.ExternalDatabaseIn(t, namespace, "cart", v1alpha1.ExternalDatabaseReady)
	if err := here.Kube.CoreV1().Namespaces().Delete(t.Context(), namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, "the namespace to be deleted", func(ctx context.Context) (bool, error) {
		list, err := here.Kube.CoreV1().Namespaces().List(ctx, metav1.ListOptions{
			FieldSelector: "metadata.name=" + namespace,
		})
		return err == nil && len(list.Items) == 0, err
	})
}
