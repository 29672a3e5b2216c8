//go:build integration

package plan

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

// TestShellCompletesObjects completes command lines as a shell does: it runs kubectl, which runs the plugin.
func TestShellCompletesObjects(t *testing.T) {
	namespace := shared.NewNamespace(t)
	for _, name := range []string{"web", "worker", "api"} {
		shared.CreateApp(t, namespace, name, v1alpha1.AppSpec{Image: "web:1"})
	}
	root, err := framework.Root()
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(root, "bin")
	for _, c := range []struct{ line, want string }{
		{"why ap", "app/"},
		{"tree ", "platform/ app/ database/ externaldatabase/ at/"},
		{"why app/w", "app/web app/worker"},
		{"plan apps/a", "apps/api"},
		{"pause app/web app/", "app/api app/web app/worker"},
		{"why nothing/", ""},
		{"plan --output ", "json yaml"},
	} {
		words := append([]string{"__complete", "windlass", "--namespace", namespace}, strings.Split(c.line, " ")...)
		command := exec.CommandContext(t.Context(), filepath.Join(bin, "kubectl"), words...)
		command.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "KUBECONFIG="+shared.Kubeconfig(),
			"KUBECACHEDIR="+t.TempDir())
		output, err := command.Output()
		if err != nil {
			t.Fatalf("completing %q: %v", c.line, err)
		}
		var got []string
		for line := range strings.Lines(string(output)) {
			if !strings.HasPrefix(line, ":") { // the directive for the shell
				got = append(got, strings.TrimSpace(line))
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%q is completed to %q, want %q", c.line, got, c.want)
		}
	}
}
