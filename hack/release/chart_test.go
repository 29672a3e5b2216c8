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

// names returns the names of the objects that are in a and not in b.
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

// renderIn renders the chart at path for a release in a namespace.
func renderIn(t *testing.T, path, namespace string, values map[string]any) (objects, error) {
	t.Helper()
	chart, err := loader.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	all, err := util.ToRenderValues(chart, values, common.ReleaseOptions{Name: "windlass", Namespace: namespace, IsInstall: true}, common.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	texts, err := engine.Render(chart, all)
	if err != nil {
		t.Fatal(err)
	}
	rendered := objects{}
	for name, text := range texts {
		if strings.HasSuffix(name, ".yaml") {
			rendered.read(t, text)
		}
	}
	return rendered, nil
}

// kustomized returns what `kubectl kustomize artifacts` prints with components.
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
			map[string]any{"monitoring": map[string]any{"enabled": true}, "networkPolicy": map[string]any{"egress": map[string]any{"enabled": true}}},
			[]string{"monitoring", "egress"},
		},
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

// equal compares the objects of artifacts and of the chart, which keeps the CRDs.
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
	all, err := renderIn(t, chartPath, "123", map[string]any{"watchNamespace": "no"}) // not a number and not a boolean
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
	service, _, _ := unstructured.NestedString(all["CustomResourceDefinition  ats.cnat.programming-kubernetes.info"], "spec", "conversion", "webhook", "clientConfig", "service", "namespace")
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
	}, everywhere.without(limited)); diff != "" {
		t.Errorf("objects that only an operator for all namespaces has (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"Role shop windlass-controller-objects", "RoleBinding shop windlass-controller-objects"}, limited.without(everywhere)); diff != "" {
		t.Errorf("objects that only an operator for one namespace has (-want +got):\n%s", diff)
	}
	subjects, _, _ := unstructured.NestedSlice(limited["RoleBinding shop windlass-controller-objects"], "subjects")
	if diff := cmp.Diff([]any{map[string]any{"kind": "ServiceAccount", "name": "windlass-controller", "namespace": "windlass-system"}}, subjects); diff != "" {
		t.Errorf("subjects (-want +got):\n%s", diff)
	}
}

// container returns the operator's container and the specification of its Pods.
func container(t *testing.T, values map[string]any) (container, pod map[string]any) {
	t.Helper()
	return containerOf(t, chartPath, values)
}

// containerOf is container for the chart at path.
func containerOf(t *testing.T, path string, values map[string]any) (container, pod map[string]any) {
	t.Helper()
	all, err := renderIn(t, path, "windlass-system", values)
	if err != nil {
		t.Fatal(err)
	}
	pod, _, _ = unstructured.NestedMap(all["Deployment windlass-system windlass-controller"], "spec", "template", "spec")
	return pod["containers"].([]any)[0].(map[string]any), pod
}

func TestChartPassesEveryValue(t *testing.T) {
	got, pod := container(t, map[string]any{
		"image":            map[string]any{"repository": "registry.example.com/windlass", "tag": "v1", "pullPolicy": "Always"},
		"imagePullSecrets": []any{map[string]any{"name": "registry"}},
		"resources":        map[string]any{"limits": map[string]any{"memory": "1Gi"}, "requests": nil},
		"goMemLimit":       "850MiB",
		"nodeSelector":     map[string]any{"disk": "ssd"},
		"tolerations":      []any{map[string]any{"operator": "Exists"}},
		"affinity":         map[string]any{"nodeAffinity": map[string]any{}},
		"topologySpreadConstraints": []any{map[string]any{
			"maxSkew": int64(1), "topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway",
		}},
		"watchNamespace": "shop", "atImage": "busybox:1", "postgresqlImage": "pg",
		"externalDatabase": map[string]any{"allowedHosts": []any{"*.example.com", "10.0.0.0/8"}, "untrustedExtensions": []any{"a", "b"}},
		"extraArgs":        []any{"--workers=20"},
	})
	for field, want := range map[string]any{
		"image": "registry.example.com/windlass:v1", "imagePullPolicy": "Always",
		"args": []any{
			"--logging-format=json", "--namespace=shop", "--at-image=busybox:1", "--postgresql-image=pg",
			"--external-database-allowed-hosts=*.example.com,10.0.0.0/8", "--external-database-untrusted-extensions=a,b", "--workers=20",
		},
		"env":       []any{map[string]any{"name": "GOMEMLIMIT", "value": "850MiB"}},
		"resources": map[string]any{"limits": map[string]any{"memory": "1Gi"}},
	} {
		if diff := cmp.Diff(want, got[field]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", field, diff)
		}
	}
	for field, want := range map[string]any{
		"imagePullSecrets": []any{map[string]any{"name": "registry"}}, "nodeSelector": map[string]any{"disk": "ssd"},
		"tolerations": []any{map[string]any{"operator": "Exists"}}, "affinity": map[string]any{"nodeAffinity": map[string]any{}},
		"topologySpreadConstraints": []any{map[string]any{"maxSkew": 1.0, "topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway"}},
	} {
		if diff := cmp.Diff(want, pod[field]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", field, diff)
		}
	}
	for _, replicas := range []int64{0, 3} {
		all, err := render(t, map[string]any{"replicas": replicas})
		if err != nil {
			t.Fatal(err)
		}
		if got, _, _ := unstructured.NestedFieldNoCopy(all["Deployment windlass-system windlass-controller"], "spec", "replicas"); got != float64(replicas) {
			t.Errorf("replicas is %v, want %d", got, replicas)
		}
	}
	all, err := render(t, map[string]any{"podLabels": map[string]any{"team": "a", "app.kubernetes.io/name": "b"}, "podAnnotations": map[string]any{"note": "c"}})
	if err != nil {
		t.Fatal(err)
	}
	for field, want := range map[string]map[string]string{
		"labels":      {"app.kubernetes.io/name": "windlass", "app.kubernetes.io/component": "controller", "team": "a"},
		"annotations": {"note": "c"},
	} {
		got, _, _ := unstructured.NestedStringMap(all["Deployment windlass-system windlass-controller"], "spec", "template", "metadata", field)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s of the Pods (-want +got):\n%s", field, diff)
		}
	}
	digest := "sha256:" + strings.Repeat("0", 64)
	if got, _ = container(t, map[string]any{"image": map[string]any{"digest": digest}}); got["image"] != "windlass-controller@"+digest {
		t.Errorf("the image is %s", got["image"])
	}
}

func TestChartLeavesOut(t *testing.T) {
	for name, c := range map[string]struct {
		values  map[string]any
		without string
	}{
		"the NetworkPolicy of connections":     {map[string]any{"networkPolicy": map[string]any{"enabled": false, "egress": map[string]any{"enabled": true}}}, "NetworkPolicy windlass-system windlass-controller-egress"},
		"the NetworkPolicy":                    {map[string]any{"networkPolicy": map[string]any{"enabled": false}}, "NetworkPolicy windlass-system windlass-controller"},
		"a budget that would block every node": {map[string]any{"replicas": int64(1)}, "PodDisruptionBudget windlass-system windlass-controller"},
	} {
		t.Run(name, func(t *testing.T) {
			all, err := render(t, c.values)
			if err != nil {
				t.Fatal(err)
			}
			if all[c.without] != nil {
				t.Errorf("the chart has %s", c.without)
			}
		})
	}
}

func TestChartRejectsWrongValues(t *testing.T) {
	for name, values := range map[string]map[string]any{
		"an unknown value":          {"replica": 3},
		"an unknown value in image": {"image": map[string]any{"name": "x"}},
		"a text for a number":       {"replicas": "two"},
		"a digest that is none":     {"image": map[string]any{"digest": "latest"}},
		"a namespace that is none":  {"watchNamespace": "a b"},
		"a flag without a dash":     {"extraArgs": []any{"workers=3"}},
		"a flag that moves a Lease": {"extraArgs": []any{"--cluster-lease-namespace=windlass-system"}},
		"a flag that moves a port":  {"extraArgs": []any{"-webhook-bind-address=:10250"}},
		"a flag of another value":   {"extraArgs": []any{"--namespace", "shop"}},
		"no image":                  {"image": map[string]any{"repository": nil}},
		"a repository with a tag":   {"image": map[string]any{"repository": "registry.example.com:5000/windlass:dev"}},
		"an image with a tag":       {"postgresqlImage": "postgres:17"},
		"two hosts in one":          {"externalDatabase": map[string]any{"allowedHosts": []any{"a.example.com,b.example.com"}}},
		"a host with a quote":       {"externalDatabase": map[string]any{"allowedHosts": []any{`"a`}}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := render(t, values); err == nil || !strings.Contains(err.Error(), "schema") {
				t.Errorf("the error is %v", err)
			}
		})
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
	args := []string{"chart", "--chart", chartPath, "--version", "v0.2.0", "--name", "registry.example.com/windlass", "--out", directory}
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
		"with components":    {"monitoring", "egress"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "install.yaml")
			args := []string{"manifests", "--artifacts", "../../artifacts", "--components", strings.Join(components, ","), "--version", "v0.2.0", "--name", "registry.example.com/windlass", "--out", path}
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
			if err := unstructured.SetNestedSlice(operator.Object, containers, "spec", "template", "spec", "containers"); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("objects (-artifacts +install.yaml):\n%s", diff)
			}
		})
	}
}

// TestNotesNameOnlyWhatTheReleaseReconciles checks the commands that the chart tells users to run.
func TestNotesNameOnlyWhatTheReleaseReconciles(t *testing.T) {
	notes := func(values map[string]any) string {
		chart, err := loader.Load(chartPath)
		if err != nil {
			t.Fatal(err)
		}
		all, err := util.ToRenderValues(chart, values, common.ReleaseOptions{Name: "windlass", Namespace: "ops", IsInstall: true}, common.DefaultCapabilities)
		if err != nil {
			t.Fatal(err)
		}
		text, err := engine.Render(chart, all)
		if err != nil {
			t.Fatal(err)
		}
		return text["windlass/templates/NOTES.txt"]
	}
	everywhere, limited := notes(nil), notes(map[string]any{"watchNamespace": "shop"})
	for _, want := range []string{"delete platforms --all\n", "databases --all --all-namespaces\n", "ops and kube-system."} {
		if !strings.Contains(everywhere, want) || strings.Contains(limited, want) {
			t.Errorf("%q must be in the notes for all namespaces, and not in those for one:\n%s\n%s", want, everywhere, limited)
		}
	}
	if want := "databases --all --namespace shop\n"; !strings.Contains(limited, want) {
		t.Errorf("%q is missing in:\n%s", want, limited)
	}
}
