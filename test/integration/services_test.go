//go:build integration

package integration

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

// TestExamplesOfServicesBecomeReady runs the commands in the comments of artifacts/examples/services, applies the
// manifests, and plans them again.
func TestExamplesOfServicesBecomeReady(t *testing.T) {
	t.Parallel()
	root, err := framework.Root()
	if err != nil {
		t.Fatal(err)
	}
	examples, err := filepath.Glob(filepath.Join(root, "artifacts", "examples", "services", "*.yaml"))
	if err != nil || len(examples) == 0 {
		t.Fatalf("artifacts/examples/services has no manifests: %v", err)
	}
	command := regexp.MustCompile(`(?m)^#   kubectl (.*)$`)
	name := regexp.MustCompile(`(?m)^kind: App\nmetadata: {name: (.*)}$`)
	for _, example := range examples {
		t.Run(strings.TrimSuffix(filepath.Base(example), ".yaml"), func(t *testing.T) {
			t.Parallel()
			namespace := shared.NewNamespace(t)
			manifest, err := os.ReadFile(example)
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range command.FindAllStringSubmatch(string(manifest), -1) {
				if _, err := shared.Shell(t.Context(), "kubectl -n "+namespace+" "+match[1]); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := shared.Kubectl(t.Context(), "", "apply", "-n", namespace, "--validate=strict", "-f",
				example); err != nil {
				t.Fatal(err)
			}
			app := name.FindStringSubmatch(string(manifest))
			if app == nil {
				t.Fatal("the manifest has no App")
			}
			shared.AppIn(t, namespace, app[1], v1alpha1.AppReady)
			plan, err := shared.Shell(t.Context(), filepath.Join(root, "bin", "kubectl-windlass")+" plan -n "+namespace+
				" -f "+example)
			if err != nil || plan != "Plan: 0 to create, 0 to change, 0 to delete.\n" {
				t.Errorf("the plan after the rollout is %s (%v)", plan, err)
			}
		})
	}
}
