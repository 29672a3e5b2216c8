//go:build e2e

// Package e2e tests the operator as users install it, in the cluster that KUBECONFIG names. Pods really
// run there.
//
//	E2E_CONTROLLER_IMAGE  the operator's image; windlass-controller:latest
//	E2E_IMAGE             an image with a shell, for Ats; the operator's default
//	E2E_APP_IMAGE         an image that serves HTTP on port 8080, does not run as root, and
//	                      contains cat; nginxinc/nginx-unprivileged:1.29
//	E2E_POSTGRES_IMAGE    an image for Databases; the operator's default
//	E2E_POSTGRES_VERSION  the major version of that image; 17
//	E2E_PSQL_IMAGE        an image that contains psql and does not run as root;
//	                      bitnamilegacy/postgresql:17
//
// The tests install artifacts/ and remove them at the end. They refuse to run in a cluster that has a
// namespace windlass-system.
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
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"windlass.dev/windlass/test/cluster"
	"windlass.dev/windlass/test/world"
)

const operatorNamespace = "windlass-system"

// here is the cluster of all tests.
var here *world.World

func TestMain(m *testing.M) {
	code, err := withOperator(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func withOperator(m *testing.M) (code int, err error) {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return 1, fmt.Errorf("loading KUBECONFIG: %w", err)
	}
	config.QPS = -1
	if here, err = world.New(config); err != nil {
		return 1, err
	}
	ctx := context.Background()
	switch _, err := here.Kube.CoreV1().Namespaces().Get(ctx, operatorNamespace, metav1.GetOptions{}); {
	case err == nil:
		return 1, fmt.Errorf("namespace %s exists: these tests install Windlass themselves and remove it at the end", operatorNamespace)
	case !apierrors.IsNotFound(err):
		return 1, err
	}
	overlay, err := writeOverlay()
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(overlay)
	defer func() {
		// These objects have finalizers of the operator, so delete them before the operator. Delete Databases last,
		// because they may be the servers of ExternalDatabases.
		var failed error
		for _, kind := range []string{"platforms.windlass.dev", "externaldatabases.windlass.dev", "databases.windlass.dev"} {
			_, err := kubectl(ctx, "", "delete", "--ignore-not-found", "--timeout=120s", kind, "--all", "--all-namespaces")
			failed = errors.Join(failed, err)
		}
		_, removed := kubectl(ctx, "", "delete", "--ignore-not-found", "--timeout=120s", "-k", overlay)
		err = errors.Join(err, failed, removed)
	}()
	if _, err := kubectl(ctx, "", "apply", "-k", overlay); err != nil {
		return 1, err
	}
	if _, err := kubectl(ctx, "", "rollout", "status", "-n", operatorNamespace, "deployment/windlass-controller", "--timeout=180s"); err != nil {
		state, _ := kubectl(ctx, "", "describe", "pods", "-n", operatorNamespace)
		return 1, fmt.Errorf("waiting for the operator to become available: %w\n%s", err, state)
	}
	code = m.Run()
	if code != 0 {
		logs, _ := kubectl(ctx, "", "logs", "-n", operatorNamespace, "-l", "app.kubernetes.io/name=windlass", "--prefix", "--tail=-1")
		fmt.Fprintf(os.Stderr, "the operator's logs:\n%s", logs)
	}
	return code, nil
}

// writeOverlay writes a kustomization of artifacts/ with the images of this run, and returns its
// directory.
func writeOverlay() (string, error) {
	root, err := cluster.Root()
	if err != nil {
		return "", err
	}
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
	text := fmt.Sprintf("resources: [../artifacts]\nimages: [{name: windlass-controller, newName: %q, newTag: %q}]\n", image[:colon], image[colon+1:])
	if at := os.Getenv("E2E_IMAGE"); at != "" {
		text += fmt.Sprintf(`patches:
- target: {kind: Deployment, name: windlass-controller}
  patch: '[{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": %q}]'
`, "--at-image="+at)
	}
	return dir, os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o644)
}

// kubectl runs kubectl with input on its standard input, and returns its standard output.
func kubectl(ctx context.Context, input string, args ...string) (string, error) {
	root, err := cluster.Root()
	if err != nil {
		return "", err
	}
	path, err := exec.LookPath("kubectl")
	if err != nil {
		path = filepath.Join(root, "bin", "kubectl")
	}
	if _, err := os.Stat(path); err != nil {
		return "", errors.New("finding kubectl: install it, or run `make bin/kubernetes` to build bin/kubectl")
	}
	command := exec.CommandContext(ctx, path, args...)
	command.Stdin = strings.NewReader(input)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		return stdout.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	return stdout.String(), nil
}

// logs returns the logs of the Pod of an At.
func logs(t *testing.T, namespace, at string) string {
	t.Helper()
	output, err := kubectl(t.Context(), "", "logs", "-n", namespace, at+"-pod")
	if err != nil {
		t.Fatal(err)
	}
	return output
}
