//go:build integration

package plan

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"windlass.dev/windlass/test/framework"
)

// session matches a block of commands and their output in the documentation.
var session = regexp.MustCompile("(?ms)^```console\n(.*?)^```")

// TestDocumentedSessionsAreWhatCommandsPrint runs the commands in docs/kubectl-windlass.md, and compares the output.
func TestDocumentedSessionsAreWhatCommandsPrint(t *testing.T) {
	root, err := framework.Root()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "kubectl-windlass.md"))
	if err != nil {
		t.Fatal(err)
	}
	examples := []string{
		"-f", "artifacts/examples/app.yaml", "-f", "artifacts/examples/database.yaml", "-f",
		"artifacts/examples/web-shop-platform.yaml",
	}
	kubectl := func(verb string, args ...string) {
		out := shell(t, root, strings.Join(append([]string{"kubectl", verb}, args...), " "))
		if strings.Contains(strings.ToLower(out), "error") {
			t.Fatal(out)
		}
	}
	kubectl("apply", examples...)
	t.Cleanup(func() { kubectl("delete", append(examples, "--wait=false")...) })
	for _, ready := range []string{"app/web", "database/shop", "platform/web-shop"} {
		kubectl("wait", ready, "--for=condition=Ready", "--timeout=60s")
	}
	ran := 0
	for _, block := range session.FindAllStringSubmatch(string(page), -1) {
		for _, step := range strings.Split(block[1], "$ ")[1:] {
			command, want, _ := strings.Cut(step, "\n")
			var got string
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("$ %s (-documented +printed):\n%s", command, cmp.Diff(comparable(want), comparable(got)))
				}
			})
			changes := !strings.Contains(command, "windlass plan") && !strings.Contains(command, "windlass why") &&
				!strings.Contains(command, "windlass tree") && !strings.Contains(command, "windlass status")
			if got = shell(t, root, command); changes {
				if comparable(got) != comparable(want) {
					t.Fatalf("%s printed another text than the documentation has", command)
				}
				continue
			}
			framework.Eventually(t, command+" to print what the documentation has", func(context.Context) (bool, error) {
				got = shell(t, root, command)
				return comparable(got) == comparable(want), nil
			})
			ran++
		}
	}
	if ran < 7 {
		t.Errorf("the documentation has %d commands, and had more", ran)
	}
}

// shell runs a command line for the local cluster, and returns its output.
func shell(t *testing.T, root, command string) string {
	t.Helper()
	run := exec.CommandContext(context.WithoutCancel(t.Context()), "bash", "-c", command)
	run.Dir = root
	run.Env = append(os.Environ(), "KUBECONFIG="+shared.Kubeconfig(),
		"PATH="+filepath.Join(root, "bin")+":"+os.Getenv("PATH"))
	out, _ := run.CombinedOutput() // plan exits with code 1 if there are differences
	return string(out)
}

var (
	// ages and generated match the parts of an output that differ between clusters.
	ages      = regexp.MustCompile(`\b(\d+d)?(\d+h)?(\d+m)?\d+[smh]\b`)
	generated = regexp.MustCompile(`-[a-z0-9]{8,10}(-[a-z0-9]{5})?\b`)
	spaces    = regexp.MustCompile(`[ ]+`)
)

// comparable returns an output without the parts that differ between clusters.
func comparable(output string) string {
	output = ages.ReplaceAllString(output, "AGE")
	output = generated.ReplaceAllStringFunc(output, func(suffix string) string {
		if strings.ContainsAny(suffix, "0123456789") {
			return "-GENERATED"
		}
		return suffix
	})
	return strings.TrimSpace(spaces.ReplaceAllString(output, " "))
}
