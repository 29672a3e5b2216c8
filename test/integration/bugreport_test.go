//go:build integration

package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

func TestBugReportHasObjectsAndNoSecrets(t *testing.T) {
	t.Parallel()
	const canary = "canary-of-the-bug-report"
	namespace := shared.NewNamespace(t)
	createConnection(t, shared, namespace, "server", map[string]string{
		"host": canary + ".example.com", "username": canary, "password": canary,
	})
	shared.CreateExternalDatabase(t, namespace, "cart", v1alpha1.ExternalDatabaseSpec{
		ConnectionSecretRef: v1alpha1.SecretReference{Name: "server"}, DatabaseName: "cart", Owner: "clerk",
	})
	shared.CreateDatabase(t, namespace, "orders", v1alpha1.DatabaseSpec{
		Version: "17", Storage: v1alpha1.DatabaseStorage{Size: resource.MustParse("1Gi")},
	})
	shared.DatabaseIn(t, namespace, "orders", v1alpha1.DatabaseDeploying)
	password := string(shared.Credentials(t, namespace, "orders").Data["password"])

	root, err := framework.Root()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	command := exec.CommandContext(t.Context(), filepath.Join(root, "hack", "bug-report.sh"), "-n", namespace,
		"externaldatabase/cart", "database/orders")
	command.Dir, command.Env = dir, append(os.Environ(), "KUBECONFIG="+shared.Kubeconfig())
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	report, err := exec.CommandContext(t.Context(), "tar", "-xzOf", filepath.Join(dir, "windlass-bug-report.tar.gz")).
		Output()
	if err != nil {
		t.Fatal(err)
	}
	text := string(report)
	for _, want := range []string{
		"Server Version", "externaldatabases.windlass.dev", namespace, "kind: ExternalDatabase", "kind: Database",
		"kind: StatefulSet", "holderIdentity",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report does not contain %q", want)
		}
	}
	for _, secret := range []string{canary, password} {
		if secret == "" || strings.Contains(text, secret) {
			t.Errorf("the report contains %q", secret)
		}
	}
}
