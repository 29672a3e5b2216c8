package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// container returns the operator's container and the specification of its Pods.
func container(t *testing.T, values map[string]any) (container, pod map[string]any) {
	t.Helper()
	return containerOf(t, chartPath, values)
}

// containerOf is like container, for the chart at path.
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
		"image": map[string]any{
			"repository": "registry.example.com/windlass", "tag": "v1", "pullPolicy": "Always",
		},
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
		"externalDatabase": map[string]any{
			"allowedHosts": []any{"*.example.com", "10.0.0.0/8"}, "untrustedExtensions": []any{"a", "b"},
		},
		"extraArgs": []any{"--workers=20"},
	})
	for field, want := range map[string]any{
		"image": "registry.example.com/windlass:v1", "imagePullPolicy": "Always",
		"args": []any{
			"--logging-format=json", "--namespace=shop", "--at-image=busybox:1", "--postgresql-image=pg",
			"--external-database-allowed-hosts=*.example.com,10.0.0.0/8",
			"--external-database-untrusted-extensions=a,b", "--workers=20",
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
		"tolerations": []any{map[string]any{"operator": "Exists"}}, "affinity": map[string]any{
			"nodeAffinity": map[string]any{},
		},
		"topologySpreadConstraints": []any{
			map[string]any{"maxSkew": 1.0, "topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway"},
		},
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
		if got, _, _ := unstructured.NestedFieldNoCopy(all["Deployment windlass-system windlass-controller"], "spec",
			"replicas"); got != float64(replicas) {
			t.Errorf("replicas is %v, want %d", got, replicas)
		}
	}
	if got, _ := container(t, map[string]any{"shards": int64(12)}); !slices.Contains(got["args"].([]any),
		any("--shards=12")) {
		t.Errorf("with 12 shards, the arguments are %v", got["args"])
	}
	all, err := render(t, map[string]any{
		"podLabels": map[string]any{"team": "a", "app.kubernetes.io/name": "b"}, "podAnnotations": map[string]any{
			"note": "c",
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for field, want := range map[string]map[string]string{
		"labels":      {"app.kubernetes.io/name": "windlass", "app.kubernetes.io/component": "controller", "team": "a"},
		"annotations": {"note": "c"},
	} {
		got, _, _ := unstructured.NestedStringMap(all["Deployment windlass-system windlass-controller"], "spec",
			"template", "metadata", field)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s of the Pods (-want +got):\n%s", field, diff)
		}
	}
	digest := "sha256:" + strings.Repeat("0", 64)
	if got, _ = container(t,
		map[string]any{"image": map[string]any{"digest": digest}}); got["image"] != "windlass-controller@"+digest {
		t.Errorf("the image is %s", got["image"])
	}
}

func TestChartLeavesOut(t *testing.T) {
	for name, c := range map[string]struct {
		values  map[string]any
		without string
	}{
		"the NetworkPolicy of connections": {
			map[string]any{
				"networkPolicy": map[string]any{"enabled": false, "egress": map[string]any{"enabled": true}},
			}, "NetworkPolicy windlass-system windlass-controller-egress",
		},
		"the NetworkPolicy": {
			map[string]any{"networkPolicy": map[string]any{"enabled": false}},
			"NetworkPolicy windlass-system windlass-controller",
		},
		"a budget that would block every node": {
			map[string]any{"replicas": int64(1)}, "PodDisruptionBudget windlass-system windlass-controller",
		},
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

func TestChartLeavesOutPolicies(t *testing.T) {
	all, err := render(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	for value, policy := range map[string]string{
		"platformAuthors": "windlass-platform-authors", "repeatedAts": "windlass-repeated-ats",
	} {
		without, err := render(t, map[string]any{"policies": map[string]any{value: false}})
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"ValidatingAdmissionPolicy  " + policy, "ValidatingAdmissionPolicyBinding  " + policy}
		if diff := cmp.Diff(want, all.without(without)); diff != "" {
			t.Errorf("objects that are left out without policies.%s (-want +got):\n%s", value, diff)
		}
	}
}

func TestChartRejectsWrongValues(t *testing.T) {
	for name, values := range map[string]map[string]any{
		"an unknown value":          {"replica": 3},
		"an unknown value in image": {"image": map[string]any{"name": "x"}},
		"a text for a number":       {"replicas": "two"},
		"no shards":                 {"shards": int64(0)},
		"too many shards":           {"shards": int64(257)},
		"shards of a namespace":     {"shards": int64(12), "watchNamespace": "shop"},
		"a digest that is none":     {"image": map[string]any{"digest": "latest"}},
		"a namespace that is none":  {"watchNamespace": "a b"},
		"a flag without a dash":     {"extraArgs": []any{"workers=3"}},
		"a flag that moves a Lease": {"extraArgs": []any{"--cluster-lease-namespace=windlass-system"}},
		"a flag that moves a port":  {"extraArgs": []any{"-webhook-bind-address=:10250"}},
		"a flag of another value":   {"extraArgs": []any{"--namespace", "shop"}},
		"a word for a policy":       {"policies": map[string]any{"platformAuthors": "warn"}},
		"an unknown policy":         {"policies": map[string]any{"apps": true}},
		"no image":                  {"image": map[string]any{"repository": nil}},
		"a repository with a tag":   {"image": map[string]any{"repository": "registry.example.com:5000/windlass:dev"}},
		"an image with a tag":       {"postgresqlImage": "postgres:17"},
		"two hosts in one": {
			"externalDatabase": map[string]any{"allowedHosts": []any{"a.example.com,b.example.com"}},
		},
		"a host with a quote": {"externalDatabase": map[string]any{"allowedHosts": []any{`"a`}}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := render(t, values); err == nil || !strings.Contains(err.Error(), "schema") {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

func TestChartRejectsShardsBesideTheLeaseOfTheCluster(t *testing.T) {
	for _, c := range []struct {
		namespace string
		shards    int64
		rejected  bool
	}{{"kube-system", 12, true}, {"kube-system", 1, false}, {"ops", 12, false}} {
		_, err := renderIn(t, chartPath, c.namespace, map[string]any{"shards": c.shards})
		if rejected := err != nil && strings.Contains(err.Error(), "namespace of its own"); rejected != c.rejected ||
			err != nil && !rejected {
			t.Errorf("with %d shards in namespace %s: %v", c.shards, c.namespace, err)
		}
	}
}

// TestNotesNameOnlyWhatTheReleaseReconciles checks that the commands in the notes of the chart name only objects that
// the release reconciles.
func TestNotesNameOnlyWhatTheReleaseReconciles(t *testing.T) {
	notes := func(values map[string]any) string {
		texts, err := textsIn(t, chartPath, "ops", values)
		if err != nil {
			t.Fatal(err)
		}
		return texts["windlass/templates/NOTES.txt"]
	}
	everywhere, limited := notes(nil), notes(map[string]any{"watchNamespace": "shop"})
	for _, want := range []string{
		"delete platforms --all\n", "databases --all --all-namespaces\n", "ops and kube-system.",
	} {
		if !strings.Contains(everywhere, want) || strings.Contains(limited, want) {
			t.Errorf("%q must be in the notes for all namespaces, and not in those for one:\n%s\n%s", want, everywhere, limited)
		}
	}
	if want := "databases --all --namespace shop\n"; !strings.Contains(limited, want) {
		t.Errorf("%q is missing in:\n%s", want, limited)
	}
	if want, with := "windlass-controller-shards", notes(map[string]any{"shards": int64(12)}); !strings.Contains(with,
		want) || strings.Contains(everywhere, want) {
		t.Errorf("%q must be in the notes with shards, and not in those without:\n%s\n%s", want, with, everywhere)
	}
}
