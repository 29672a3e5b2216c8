//go:build integration

package integration

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"windlass.dev/windlass/test/framework"
)

// TestMemcachedExampleBehavesAsDocumented runs the operator in examples/memcached, with the permissions in its
// manifests, beside Windlass' own controllers.
func TestMemcachedExampleBehavesAsDocumented(t *testing.T) {
	t.Parallel()
	root, err := framework.Root()
	if err != nil {
		t.Fatal(err)
	}
	artifacts := filepath.Join(root, "examples", "memcached", "artifacts")
	namespace := shared.NewNamespace(t)
	kubectl := func(args ...string) string {
		t.Helper()
		output, err := shared.Kubectl(t.Context(), "", append([]string{"-n", namespace}, args...)...)
		if err != nil {
			t.Fatal(err)
		}
		return output
	}
	kubectl("apply", "-f", filepath.Join(artifacts, "crds"))
	kubectl("wait", "--for=condition=Established", "-f", filepath.Join(artifacts, "crds"),
		"--timeout="+framework.Patience.String())
	kubectl("-n", "memcached-operator", "apply", "-f", filepath.Join(artifacts, "operator.yaml"))
	// the test runs the operator outside of the cluster
	kubectl("-n", "memcached-operator", "delete", "deployment", "memcached-operator")
	eventuallyIs := func(want string, args ...string) {
		t.Helper()
		var got string
		err := framework.Await(t.Context(), func(ctx context.Context) (_ bool, err error) {
			if got, err = shared.Kubectl(ctx, "", append([]string{"-n", namespace}, args...)...); err != nil {
				got = err.Error()
			}
			return got == want, nil
		})
		if err != nil {
			t.Fatalf("kubectl %s: got %q, want %q", strings.Join(args, " "), got, want)
		}
	}
	awaitPermission(t, "list", "memcacheds.cache.example.com", "--all-namespaces")
	awaitPermission(t, "update", "leases.coordination.k8s.io/memcached-operator", "-n", "memcached-operator")
	log := startExample(t, root)
	condition := func(field string) string {
		return `jsonpath={.status.conditions[?(@.type=="Ready")].` + field + `}`
	}
	arguments := "jsonpath={.spec.template.spec.containers[0].args}"

	kubectl("apply", "-f", filepath.Join(artifacts, "example.yaml"))
	kubectl("wait", "--for=condition=Ready", "memcached/sessions", "--timeout="+framework.Patience.String())
	eventuallyIs(`["--memory-limit=128","--conn-limit=2048","--threads=2"]`, "get", "deployment/sessions", "-o", arguments)
	eventuallyIs("None", "get", "service/sessions", "-o", "jsonpath={.spec.clusterIP}")
	table := kubectl("get", "memcacheds")
	if !strings.Contains(table, "NAME       READY   REASON      AVAILABLE   AGE\nsessions   True    Available   2") {
		t.Errorf("kubectl get memcacheds prints\n%s", table)
	}

	kubectl("scale", "memcached/sessions", "--replicas=3")
	eventuallyIs("3 3", "get", "memcached/sessions", "-o", "jsonpath={.status.replicas} {.status.readyReplicas}")

	kubectl("patch", "configmap", "sessions-arguments", "--type=merge", "-p", `{"data":{"arguments":"--threads=4"}}`)
	eventuallyIs(`["--memory-limit=128","--threads=4"]`, "get", "deployment/sessions", "-o", arguments)
	generation := kubectl("get", "deployment/sessions", "-o", "jsonpath={.metadata.generation}")
	kubectl("label", "configmap", "sessions-arguments", "owner=me")
	kubectl("label", "deployment", "sessions", "app.kubernetes.io/name=else", "--overwrite")
	eventuallyIs("memcached", "get", "deployment/sessions", "-o", `jsonpath={.metadata.labels.app\.kubernetes\.io/name}`)
	eventuallyIs(generation, "get", "deployment/sessions", "-o", "jsonpath={.metadata.generation}")

	kubectl("delete", "service/sessions")
	eventuallyIs("service/sessions\n", "get", "service/sessions", "-o", "name", "--ignore-not-found")
	kubectl("patch", "service/sessions", "--type=json", "-p", `[{"op":"remove","path":"/metadata/ownerReferences"}]`)
	eventuallyIs("sessions", "get", "service/sessions", "-o", "jsonpath={.metadata.ownerReferences[0].name}")

	kubectl("patch", "memcached/sessions", "--type=merge", "-p", `{"spec":{"argumentsFrom":{"name":"later"}}}`)
	eventuallyIs("Waiting for ConfigMap later, which the spec names, to be created.", "get", "memcached/sessions", "-o",
		condition("message"))
	kubectl("create", "configmap", "later", "--from-literal=arguments=--threads=1")
	eventuallyIs(`["--memory-limit=128","--threads=1"]`, "get", "deployment/sessions", "-o", arguments)

	kubectl("delete", "memcached/sessions")
	eventuallyIs("", "get", "deployments,services", "-o", "name")
	if strings.Contains(log.String(), "forbidden") {
		t.Errorf("the operator lacks a permission; its log:\n%s", log.String())
	}
}

// awaitPermission waits until the API server grants the operator a permission, because the API server observes a new
// role binding after a delay.
func awaitPermission(t *testing.T, permission ...string) {
	t.Helper()
	args := append([]string{"auth", "can-i", "--as", "system:serviceaccount:memcached-operator:memcached-operator"},
		permission...)
	framework.Eventually(t, "the permission to "+strings.Join(permission, " "), func(ctx context.Context) (bool, error) {
		output, _ := shared.Kubectl(ctx, "", args...) // fails if the output is "no"
		return output == "yes\n", nil
	})
}

// startExample starts the operator in examples/memcached, and returns its log. The operator stops at the end of the
// test.
func startExample(t *testing.T, root string) *framework.Log {
	t.Helper()
	kubeconfig, err := shared.ServiceAccountKubeconfig(t.Context(), "memcached-operator", "memcached-operator")
	if err != nil {
		t.Fatal(err)
	}
	log := &framework.Log{}
	command := exec.Command(filepath.Join(root, "bin", "memcached-operator"), "--kubeconfig", kubeconfig,
		"--bind-address", framework.OwnAddress(), "--metrics-bind-address", framework.OwnAddress())
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		t.Fatalf("starting the example (`make example` builds it): %v", err)
	}
	t.Cleanup(func() {
		if err := command.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if err := command.Wait(); err != nil {
			t.Errorf("the operator ended with %v; its log:\n%s", err, log.String())
		}
	})
	return log
}
