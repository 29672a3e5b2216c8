//go:build integration

package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/test/framework"
)

func TestAPIServerAcceptsEveryExample(t *testing.T) {
	t.Parallel()
	root, err := framework.Root()
	if err != nil {
		t.Fatal(err)
	}
	examples, err := filepath.Glob(filepath.Join(root, "artifacts", "examples", "*.yaml"))
	if err != nil || len(examples) == 0 {
		t.Fatalf("artifacts/examples has no manifests: %v", err)
	}
	for _, example := range examples {
		t.Run(filepath.Base(example), func(t *testing.T) {
			namespace := shared.NewNamespace(t)
			if _, err := shared.Kubectl(t.Context(), "", "apply", "-n", namespace, "--validate=strict", "-f",
				example); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestKustomizationListsEveryManifest(t *testing.T) {
	t.Parallel()
	root, err := framework.Root()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := shared.Kubectl(t.Context(), "", "apply", "--dry-run=server", "--validate=strict", "-k",
		filepath.Join(root, "artifacts")); err != nil {
		t.Error(err)
	}
	kustomization, err := os.ReadFile(filepath.Join(root, "artifacts", "kustomization.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, directory := range []string{"crds", "deploy", "policies", "rbac"} {
		files, err := filepath.Glob(filepath.Join(root, "artifacts", directory, "*.yaml"))
		if err != nil || len(files) == 0 {
			t.Fatalf("artifacts/%s has no manifests: %v", directory, err)
		}
		for _, file := range files {
			if entry := "- " + directory + "/" + filepath.Base(file); !strings.Contains(string(kustomization), entry+"\n") {
				t.Errorf("the kustomization has no line %q", entry)
			}
		}
	}
}

func TestNamespacedControllerNeedsNoPermissionsElsewhere(t *testing.T) {
	t.Parallel()
	p := framework.Own(t)
	root, err := framework.Root()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ours", "theirs"} {
		if _, err := p.Kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: name},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{"delete", "clusterrolebinding", "windlass-controller"},
		{"apply", "-n", "ours", "-f", filepath.Join(root, "artifacts", "rbac", "namespaced")},
	} {
		if _, err := p.Kubectl(t.Context(), "", args...); err != nil {
			t.Fatal(err)
		}
	}
	controller := framework.Launch(t, p.Cluster, "--namespace", "ours")
	p.Create(t, "theirs", "example", "echo Hello", nil)
	p.Create(t, "ours", "example", "echo Hello", nil)
	p.InPhase(t, "ours", "example", v1.AtDone)
	other, err := p.Windlass.CnatV1().Ats("theirs").Get(t.Context(), "example", metav1.GetOptions{})
	if err != nil || other.Status.Phase != "" {
		t.Errorf("an At in another namespace has the phase %q: %v", other.Status.Phase, err)
	}
	for _, line := range controllerRequests(t, p.Cluster, func(r framework.Request) bool {
		return r.ResponseStatus.Code == 403
	}) {
		t.Errorf("the API server denied a request of the controller: %s", line)
	}
	if code := controller.Terminate(); code != 0 {
		t.Errorf("the controller ended with exit code %d, want 0", code)
	}
	if !strings.Contains(controller.Log.String(), "Not reconciling Platforms") {
		t.Errorf("the log does not report that the controller ignores Platforms:\n%s", controller.Log.String())
	}
	if strings.Contains(controller.Log.String(), "forbidden") {
		t.Errorf("the log contains %q:\n%s", "forbidden", controller.Log.String())
	}
}

// cnatDefinition is the CustomResourceDefinition of the original cnat operator.
const cnatDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ats.cnat.programming-kubernetes.info}
spec:
  group: cnat.programming-kubernetes.info
  names: {kind: At, listKind: AtList, plural: ats, singular: at}
  scope: Namespaced
  versions:
  - name: v1alpha1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {schedule: {type: string}, command: {type: string}}}
          status: {type: object, properties: {phase: {type: string}}}
`

func TestControllerRunsStoredAtsOfCnat(t *testing.T) {
	t.Parallel()
	p := framework.Own(t)
	root, err := framework.Root()
	if err != nil {
		t.Fatal(err)
	}
	kubectl := func(input string, args ...string) {
		t.Helper()
		if _, err := p.Kubectl(t.Context(), input, args...); err != nil {
			t.Fatal(err)
		}
	}
	const crd = "crd/ats.cnat.programming-kubernetes.info"
	kubectl("", "delete", crd, "--timeout=60s")
	kubectl(cnatDefinition, "apply", "-f", "-")
	kubectl("", "wait", "--for=condition=Established", crd, "--timeout=60s")
	kubectl(`{"apiVersion":"cnat.programming-kubernetes.info/v1alpha1","kind":"At","metadata":{"name":"old"},`+
		`"spec":{"schedule":"2020-01-01T00:00:00Z","command":"echo Hello"}}`,
		"create", "-n", "default", "-f", "-")
	kubectl("", "apply", "-f", filepath.Join(root, "artifacts", "crds"))
	controller := framework.Launch(t, p.Cluster)
	defer controller.Terminate()
	p.InPhase(t, "default", "old", v1.AtDone)
}
