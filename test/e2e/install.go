//go:build e2e

package e2e

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"windlass.dev/windlass/test/framework"
)

// installation is a way to install and remove the operator.
type installation interface {
	// install installs the operator, or does nothing if it is installed. It returns when the operator is available.
	install(ctx context.Context) error
	// uninstall removes the operator, and waits until its Pods are gone. CRDs with objects may stay.
	uninstall(ctx context.Context) error
	// previous returns the installation of the previous release in dir. If dir is empty, it returns an installation of
	// this version.
	previous(dir string) (installation, error)
	// forward upgrades the operator from the release of previous to this version.
	forward(ctx context.Context) error
}

// newInstallation returns the installation that E2E_INSTALL names, and a function that removes the files of the
// installation.
func newInstallation() (installation, func(), error) {
	root, err := framework.Root()
	if err != nil {
		return nil, nil, err
	}
	switch way := cmp.Or(os.Getenv("E2E_INSTALL"), "artifacts"); way {
	case "artifacts":
		overlay, err := writeOverlay(root)
		return manifests{"-k", overlay}, func() { os.RemoveAll(overlay) }, err
	case "manifests":
		return manifests{"-f", filepath.Join(root, "dist", "install.yaml")}, func() {}, nil
	case "helm":
		path, err := packageIn(filepath.Join(root, "dist"))
		return chart{root, path}, func() {}, err
	default:
		return nil, nil, fmt.Errorf("E2E_INSTALL is %q, and must be artifacts, manifests or helm", way)
	}
}

// manifests are the manifests that `kubectl apply FLAG PATH` applies.
type manifests struct{ flag, path string }

func (m manifests) install(ctx context.Context) error {
	if _, err := kubectl(ctx, "", "apply", m.flag, m.path); err != nil {
		return err
	}
	if m.flag == "-f" { // the overlay of artifacts already sets the image of Ats
		patch := fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"controller",`+
			`"args":["--logging-format=json","--at-image=%s"]}]}}}}`, atImage())
		if _, err := kubectl(ctx, "", "patch", "deployment", "windlass-controller", "-n", operatorNamespace, "-p",
			patch); err != nil {
			return err
		}
	}
	return awaitOperator(ctx)
}

func (m manifests) uninstall(ctx context.Context) error {
	// Delete the operator first, so that it cannot finish the following deletions.
	if _, err := kubectl(ctx, "", "delete", "deployment", "windlass-controller", "-n", operatorNamespace,
		"--ignore-not-found", "--cascade=foreground", "--timeout=120s"); err != nil {
		return err
	}
	// Do not wait for CRDs whose objects have finalizers of the operator. They stay until the operator is installed again.
	if _, err := kubectl(ctx, "", "delete", "--ignore-not-found", "--wait=false", m.flag, m.path); err != nil {
		return err
	}
	_, err := kubectl(ctx, "", "wait", "--for=delete", "--timeout=120s", "namespace/"+operatorNamespace)
	return err
}

func (m manifests) previous(dir string) (installation, error) {
	if dir == "" {
		return m, nil
	}
	return manifests{"-f", filepath.Join(dir, "install.yaml")}, nil
}

func (m manifests) forward(ctx context.Context) error { return m.install(ctx) }

// chart is a packaged Helm chart.
type chart struct{ root, path string }

func (c chart) install(ctx context.Context) error {
	err := c.helm(ctx, "upgrade", "--install", "windlass", c.path, "--create-namespace", "--set", "atImage="+atImage())
	if err != nil {
		return err
	}
	return awaitOperator(ctx)
}

func (c chart) uninstall(ctx context.Context) error {
	return c.helm(ctx, "uninstall", "windlass", "--ignore-not-found", "--wait")
}

func (c chart) previous(dir string) (installation, error) {
	if dir == "" {
		return c, nil
	}
	path, err := packageIn(dir)
	return chart{c.root, path}, err
}

// forward undoes the installation of the previous release with `helm rollback`, which installs this version again.
func (c chart) forward(ctx context.Context) error {
	if err := c.helm(ctx, "rollback", "windlass", "--wait"); err != nil {
		return err
	}
	return awaitOperator(ctx)
}

// packageIn returns the path of the packaged chart in a directory.
func packageIn(dir string) (string, error) {
	packages, err := filepath.Glob(filepath.Join(dir, "windlass-*.tgz"))
	if err == nil && len(packages) != 1 {
		err = fmt.Errorf("%s has %d charts, want one: run `make release`", dir, len(packages))
	}
	return strings.Join(packages, " "), err
}

// helm runs bin/helm in the namespace of the operator.
func (c chart) helm(ctx context.Context, args ...string) error {
	command := exec.CommandContext(ctx, filepath.Join(c.root, "bin", "helm"),
		append(args, "--namespace", operatorNamespace)...)
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("helm %s: %w: %s", strings.Join(args, " "), err, output)
	}
	return nil
}

// atImage returns the image of Ats.
func atImage() string { return cmp.Or(os.Getenv("E2E_IMAGE"), "busybox:1.37") }

// awaitOperator waits until all replicas of the operator are available.
func awaitOperator(ctx context.Context) error {
	_, err := kubectl(ctx, "", "rollout", "status", "-n", operatorNamespace, "deployment/windlass-controller",
		"--timeout=180s")
	if err != nil {
		state, _ := kubectl(ctx, "", "describe", "pods", "-n", operatorNamespace)
		return fmt.Errorf("waiting for the operator to become available: %w\n%s", err, state)
	}
	return nil
}

// writeOverlay writes a kustomization of artifacts/ with the images of this run, and returns its
// directory.
func writeOverlay(root string) (string, error) {
	// A kustomization refers to artifacts/ by a relative path, so its directory must be inside the module.
	dir, err := os.MkdirTemp(root, ".e2e-")
	if err != nil {
		return "", err
	}
	image := cmp.Or(os.Getenv("E2E_CONTROLLER_IMAGE"), "windlass-controller:latest")
	colon := strings.LastIndex(image, ":")
	if colon < strings.LastIndex(image, "/")+1 {
		return "", fmt.Errorf("E2E_CONTROLLER_IMAGE must be NAME:TAG, not %q", image)
	}
	text := fmt.Sprintf(`resources: [../artifacts]
images: [{name: windlass-controller, newName: %q, newTag: %q}]
patches:
- target: {kind: Deployment, name: windlass-controller}
  patch: '[{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": %q}]'
`, image[:colon], image[colon+1:], "--at-image="+atImage())
	return dir, os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o644)
}

// kubectl runs kubectl with input on its standard input, and returns its standard output.
func kubectl(ctx context.Context, input string, args ...string) (string, error) {
	command, err := kubectlCommand(ctx, args...)
	if err != nil {
		return "", err
	}
	command.Stdin = strings.NewReader(input)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		return stdout.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	return stdout.String(), nil
}

// kubectlCommand returns a command that runs kubectl.
func kubectlCommand(ctx context.Context, args ...string) (*exec.Cmd, error) {
	root, err := framework.Root()
	if err != nil {
		return nil, err
	}
	path, err := exec.LookPath("kubectl")
	if err != nil {
		path = filepath.Join(root, "bin", "kubectl")
	}
	if _, err := os.Stat(path); err != nil {
		return nil, errors.New("finding kubectl: install it, or run `make bin/kubernetes` to build bin/kubectl")
	}
	return exec.CommandContext(ctx, path, args...), nil
}
