//go:build e2e

// Package e2e tests the operator as users install it, in the cluster that KUBECONFIG names. The cluster must have real
// nodes, because the tests run commands in Pods.
//
// Environment variables configure the tests. In this list, the default of a variable follows the semicolon.
//
//	E2E_INSTALL           how to install the operator: artifacts, or manifests or helm from the files of a release
//	                      in dist/; artifacts
//	E2E_FROM              a directory with the files of the release that the operator is rolled back to and upgraded
//	                      from; this version
//	E2E_CONTROLLER_IMAGE  the operator's image for artifacts; windlass-controller:latest
//	E2E_IMAGE             an image with the shell, wget, nc and httpd of busybox, which runs as root by default, and
//	                      also as another user; the operator's default
//	E2E_APP_IMAGE         an image that serves HTTP on port 8080, finishes its requests after the signal to stop, does
//	                      not run as root, and contains sh and cat; nginxinc/nginx-unprivileged:1.29
//	E2E_POSTGRES_IMAGE    an image for Databases; the operator's default
//	E2E_POSTGRES_VERSION  the major version of E2E_POSTGRES_IMAGE; 17
//	E2E_PSQL_IMAGE        an image that contains psql and does not run as root; bitnamilegacy/postgresql:17
//
// The tests install the operator and remove it at the end. They do not run in a cluster that has a namespace
// windlass-system.
package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"windlass.dev/windlass/test/framework"
)

const operatorNamespace = "windlass-system"

// here has the clients of the cluster in which the tests run. operator installs Windlass in this cluster.
var (
	here     *framework.Clients
	operator installation
)

func TestMain(m *testing.M) { framework.Exit(withOperator(m)) }

func withOperator(m *testing.M) (code int, err error) {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return 1, fmt.Errorf("loading KUBECONFIG: %w", err)
	}
	config.QPS = -1
	if here, err = framework.NewClients(config); err != nil {
		return 1, err
	}
	ctx := context.Background()
	switch _, err := here.Kube.CoreV1().Namespaces().Get(ctx, operatorNamespace, metav1.GetOptions{}); {
	case err == nil:
		return 1, fmt.Errorf("namespace %s exists: these tests install Windlass themselves and remove it at the end",
			operatorNamespace)
	case !apierrors.IsNotFound(err):
		return 1, err
	}
	installed, remove, err := newInstallation()
	if err != nil {
		return 1, err
	}
	defer remove()
	operator = installed
	defer func() {
		// These objects have finalizers of the operator, so delete them before the operator. Delete Databases last,
		// because they may be the servers of ExternalDatabases.
		var failed error
		for _, kind := range []string{
			"platforms.windlass.dev", "apps.windlass.dev", "externaldatabases.windlass.dev", "databases.windlass.dev",
		} {
			_, err := kubectl(ctx, "", "delete", "--ignore-not-found", "--timeout=120s", kind, "--all", "--all-namespaces")
			failed = errors.Join(failed, err)
		}
		failed = errors.Join(failed, operator.uninstall(ctx))
		// Helm keeps the CRDs and the namespace.
		_, removed := kubectl(ctx, "", "delete", "--ignore-not-found", "--timeout=120s", "namespace/"+operatorNamespace,
			"crd/ats.cnat.programming-kubernetes.info", "crd/apps.windlass.dev", "crd/databases.windlass.dev",
			"crd/externaldatabases.windlass.dev", "crd/platforms.windlass.dev")
		err = errors.Join(err, failed, removed)
	}()
	if err := operator.install(ctx); err != nil {
		return 1, err
	}
	code = m.Run()
	if code != 0 {
		logs, _ := kubectl(ctx, "", "logs", "-n", operatorNamespace, "-l", "app.kubernetes.io/name=windlass",
			"--prefix", "--tail=-1")
		fmt.Fprintf(os.Stderr, "the operator's logs:\n%s", logs)
	}
	return code, nil
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
