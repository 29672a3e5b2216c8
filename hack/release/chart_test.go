package main

import (
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

const chartPath = "../../charts/windlass"

// objects are Kubernetes objects by kind, namespace and name.
type objects map[string]map[string]any

// read adds the objects in a YAML text.
func (o objects) read(t *testing.T, text string) {
	t.Helper()
	for decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096); ; {
		var object unstructured.Unstructured
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("%v in:\n%s", err, text)
		}
		if len(object.Object) == 0 {
			continue
		}
		key := strings.Join([]string{object.GetKind(), object.GetNamespace(), object.GetName()}, " ")
		if o[key] != nil {
			t.Errorf("%s exists twice", key)
		}
		o[key] = object.Object
	}
}

// without returns the names of the objects in o that are not in other.
func (o objects) without(other objects) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(o)) {
		if other[name] == nil {
			names = append(names, name)
		}
	}
	return names
}

// render renders the chart with values.
func render(t *testing.T, values map[string]any) (objects, error) {
	t.Helper()
	return renderIn(t, chartPath, "windlass-system", values)
}

// renderIn renders the manifests of the chart at path for a release in a namespace.
func renderIn(t *testing.T, path, namespace string, values map[string]any) (objects, error) {
	t.Helper()
	texts, err := textsIn(t, path, namespace, values)
	if err != nil {
		return nil, err
	}
	rendered := objects{}
	for name, text := range texts {
		if strings.HasSuffix(name, ".yaml") {
			rendered.read(t, text)
		}
	}
	return rendered, nil
}

// textsIn renders all templates of the chart at path for a release in a namespace. The keys are the paths of the
// templates.
func textsIn(t *testing.T, path, namespace string, values map[string]any) (map[string]string, error) {
	t.Helper()
	chart, err := loader.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	all, err := util.ToRenderValues(chart, values, common.ReleaseOptions{
		Name: "windlass", Namespace: namespace, IsInstall: true,
	}, common.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	return engine.Render(chart, all)
}

// kustomized returns the objects that `kubectl kustomize` prints for artifacts with components.
func kustomized(t *testing.T, components ...string) objects {
	t.Helper()
	text, err := manifests("../../artifacts", components...)
	if err != nil {
		t.Fatal(err)
	}
	all := objects{}
	all.read(t, text)
	return all
}

func TestChartEqualsArtifacts(t *testing.T) {
	for name, c := range map[string]struct {
		values     map[string]any
		components []string
	}{
		"with its defaults": {},
		"with monitoring and limits of egress": {
			map[string]any{
				"monitoring": map[string]any{"enabled": true}, "networkPolicy": map[string]any{
					"egress": map[string]any{"enabled": true},
				},
			},
			[]string{"monitoring", "egress"},
		},
		"with shards": {map[string]any{"shards": 12, "replicas": 3}, []string{"sharded"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := render(t, c.values)
			if err != nil {
				t.Fatal(err)
			}
			want := kustomized(t, c.components...)
			delete(want, "Namespace  windlass-system") // `helm install --create-namespace` creates it
			equal(t, want, got)
		})
	}
}

// equal fails the test unless artifacts and the chart have the same objects. It requires and ignores the annotation
// that makes Helm keep the CRDs of the chart.
func equal(t *testing.T, want, got objects) {
	t.Helper()
	for name, object := range got {
		if object["kind"] != "CustomResourceDefinition" {
			continue
		}
		annotations := object["metadata"].(map[string]any)["annotations"].(map[string]any)
		if annotations["helm.sh/resource-policy"] != "keep" {
			t.Errorf("`helm uninstall` deletes %s, and with it all objects of its kind", name)
		}
		delete(annotations, "helm.sh/resource-policy")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("artifacts and chart differ (-artifacts +chart):\n%s", diff)
	}
}

func TestChartInstallsIntoAnyNamespace(t *testing.T) {
	all, err := renderIn(t, chartPath, "123", map[string]any{"watchNamespace": "no"}) // YAML could misread both
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, object := range all {
		found[(&unstructured.Unstructured{Object: object}).GetNamespace()] = true
	}
	if diff := cmp.Diff([]string{"", "123", "no"}, slices.Sorted(maps.Keys(found))); diff != "" {
		t.Errorf("namespaces (-want +got):\n%s", diff)
	}
	service, _, _ := unstructured.NestedString(all["CustomResourceDefinition  ats.cnat.programming-kubernetes.info"],
		"spec", "conversion", "webhook", "clientConfig", "service", "namespace")
	if service != "123" {
		t.Errorf("the namespace of the webhook is %q, want 123", service)
	}
}

func TestChartLimitsOperatorToNamespace(t *testing.T) {
	everywhere, err := render(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	limited, err := render(t, map[string]any{"watchNamespace": "shop"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{
		"ClusterRole  windlass-controller", "ClusterRoleBinding  windlass-controller",
		"Role kube-system windlass-controller-cluster-lease", "RoleBinding kube-system windlass-controller-cluster-lease",
		"ValidatingAdmissionPolicy  windlass-platform-authors", "ValidatingAdmissionPolicyBinding  windlass-platform-authors",
	}, everywhere.without(limited)); diff != "" {
		t.Errorf("objects that only an operator for all namespaces has (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{
		"Role shop windlass-controller-objects", "RoleBinding shop windlass-controller-objects",
	}, limited.without(everywhere)); diff != "" {
		t.Errorf("objects that only an operator for one namespace has (-want +got):\n%s", diff)
	}
	subjects, _, _ := unstructured.NestedSlice(limited["RoleBinding shop windlass-controller-objects"], "subjects")
	if diff := cmp.Diff([]any{
		map[string]any{"kind": "ServiceAccount", "name": "windlass-controller", "namespace": "windlass-system"},
	}, subjects); diff != "" {
		t.Errorf("subjects (-want +got):\n%s", diff)
	}
}

func TestChartPassesLint(t *testing.T) {
	for _, message := range lint.RunAll(chartPath, nil, "windlass-system").Messages {
		if message.Severity > support.InfoSev {
			t.Errorf("%s: %v", message.Path, message.Err)
		}
	}
}

func TestPackagedChartInstallsTheRelease(t *testing.T) {
	directory := t.TempDir()
	args := []string{
		"chart", "--chart", chartPath, "--version", "v0.2.0", "--name", "registry.example.com/windlass", "--out", directory,
	}
	if err := run(t.Context(), args, io.Discard); err != nil {
		t.Fatal(err)
	}
	chart, err := loader.LoadFile(filepath.Join(directory, "windlass-0.2.0.tgz"))
	if err != nil {
		t.Fatal(err)
	}
	if chart.Metadata.Version != "0.2.0" || chart.AppVersion() != "v0.2.0" {
		t.Errorf("the versions are %s and %s", chart.Metadata.Version, chart.AppVersion())
	}
	got, _ := containerOf(t, filepath.Join(directory, "windlass-0.2.0.tgz"), nil)
	if got["image"] != "registry.example.com/windlass:v0.2.0" {
		t.Errorf("the image is %s, want registry.example.com/windlass:v0.2.0", got["image"])
	}
	if _, err := os.Stat(filepath.Join(chartPath, "values.schema.json")); err != nil || len(chart.Schema) == 0 {
		t.Errorf("the package has no schema: %v", err)
	}
}

func TestManifestsInstallTheRelease(t *testing.T) {
	for name, components := range map[string][]string{
		"without components": nil,
		"with components":    {"monitoring", "egress", "sharded"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "install.yaml")
			args := []string{
				"manifests", "--artifacts", "../../artifacts", "--components", strings.Join(components, ","),
				"--version", "v0.2.0", "--name", "registry.example.com/windlass", "--out", path,
			}
			if err := run(t.Context(), args, io.Discard); err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			got, want := objects{}, kustomized(t, components...)
			got.read(t, string(text))
			operator := &unstructured.Unstructured{Object: want["Deployment windlass-system windlass-controller"]}
			containers, _, _ := unstructured.NestedSlice(operator.Object, "spec", "template", "spec", "containers")
			containers[0].(map[string]any)["image"] = "registry.example.com/windlass:v0.2.0"
			if err := unstructured.SetNestedSlice(operator.Object, containers, "spec", "template", "spec",
				"containers"); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("objects (-artifacts +install.yaml):\n%s", diff)
			}
		})
	}
}
