//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"windlass.dev/windlass/test/framework"
)

// TestWhyExplainsPodsThatDoNotRun checks the output of `kubectl windlass why` for objects whose Pods do not run.
func TestWhyExplainsPodsThatDoNotRun(t *testing.T) {
	const app = "apiVersion: windlass.dev/v1alpha1\nkind: App\nmetadata: {name: web}\nspec: {image: '%s', %s}\n"
	for name, c := range map[string]struct {
		manifest, of string
		// says are parts of the output, in their order.
		says []string
	}{
		"an image that does not exist": {
			fmt.Sprintf(app, missingImage, "port: 8080"), "app/web",
			[]string{"App NAMESPACE/web is ", "Pod web-", missingImage},
		},
		"a command that does not exist": {
			fmt.Sprintf(app, appImage(), "command: [/no/such/thing]"), "app/web",
			[]string{"App NAMESPACE/web is ", "Pod web-", "no such file"},
		},
		"a command that crashes": {
			fmt.Sprintf(app, appImage(), "command: [sh, -c, 'echo there is no table orders; exit 3']"), "app/web",
			[]string{"App NAMESPACE/web is ", "exit code 3", "The last lines of container", "    there is no table orders"},
		},
		"a command that fails before the rollout": {
			fmt.Sprintf(app, appImage(), "beforeRollout: {command: [sh, -c, 'echo the migration is wrong; exit 4']}"), "app/web",
			[]string{"App NAMESPACE/web is ", "exit code 4", "    the migration is wrong"},
		},
		"an image that runs as root": {
			fmt.Sprintf(app, atImage(), "command: [sleep, '600']"), "app/web",
			[]string{"App NAMESPACE/web is ", "run as root"},
		},
		"a probe of a path that is missing": {
			fmt.Sprintf(app, appImage(), "probe: {path: /missing}"), "app/web",
			[]string{"App NAMESPACE/web is ", "Pod NAMESPACE/web-", "is not ready: Readiness probe failed", "404"},
		},
		"a component whose image does not exist": {
			"apiVersion: windlass.dev/v1alpha1\nkind: Platform\nmetadata: {name: NAMESPACE}\nspec: {namespace: " +
				"NAMESPACE, components: [" +
				"{name: orders, dependsOn: [db], app: {image: '" + appImage() + "'}}, {name: db, database: {version: " +
				"'17', image: '" + missingImage + "', storage: {size: 1Gi}}}]}\n",
			"platform/NAMESPACE",
			[]string{
				"Platform NAMESPACE is ", "component orders waits", "Database NAMESPACE/NAMESPACE-db is ",
				"Pod NAMESPACE-db-0", missingImage,
			},
		},
		"an At whose command fails": {
			"apiVersion: cnat.programming-kubernetes.info/v1\nkind: At\nmetadata: {name: job}\nspec: {schedule: " +
				"'2020-01-01T00:00:00Z', command: [sh, -c, 'echo no disk; exit 5']}\n",
			"at/job", []string{"At NAMESPACE/job is Done", "exit code 5", "    no disk"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := here.NewNamespace(t)
			fill := strings.NewReplacer("NAMESPACE", namespace).Replace
			if _, err := kubectl(t.Context(), fill(c.manifest), "apply", "-n", namespace, "-f", "-"); err != nil {
				t.Fatal(err)
			}
			var output string
			t.Cleanup(func() { t.Logf("kubectl windlass why %s:\n%s", c.of, output) })
			framework.Eventually(t, "why to find the cause", func(ctx context.Context) (found bool, err error) {
				if output, err = plugin(ctx, "why", fill(c.of), "-n", namespace); err != nil {
					return false, err
				}
				rest := output
				for _, part := range c.says {
					if _, rest, found = strings.Cut(rest, fill(part)); !found {
						return false, nil
					}
				}
				return true, nil
			})
		})
	}
}

// plugin returns the output of a command of kubectl windlass.
func plugin(ctx context.Context, args ...string) (string, error) {
	root, err := framework.Root()
	if err != nil {
		return "", err
	}
	output, err := exec.CommandContext(ctx, filepath.Join(root, "bin", "kubectl-windlass"), args...).Output()
	if failed := (&exec.ExitError{}); errors.As(err, &failed) {
		return string(output), fmt.Errorf("kubectl windlass %s: %w: %s", strings.Join(args, " "), err, failed.Stderr)
	}
	return string(output), err
}
