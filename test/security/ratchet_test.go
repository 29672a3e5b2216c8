//go:build integration

package security

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	gvr "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
	"windlass.dev/windlass/test/schema"
)

// stored lists objects that the current schemas reject, each with a valid change of another field of its spec. The
// Platform has no change here, because the test itself contains this change.
var stored = []struct {
	name, resource string
	spec           schema.Node
	change         string
}{
	{"quantities", "apps", schema.Node{"resources": schema.Node{
		"requests": schema.Node{"cpu": "1e5.5"}, "limits": schema.Node{"memory": "1e-9999"},
	},
		"env": []any{
			schema.Node{
				"name": "A", "valueFrom": schema.Node{"resourceFieldRef": schema.Node{"resource": "limits.cpu", "divisor": "1e.5"}},
			},
		}}, `{"port":81}`},
	{"sizes", "apps", schema.Node{"args": []any{strings.Repeat("a", 200_000)}, "config": schema.Node{
		"a": strings.Repeat("a", 400_000), "b": strings.Repeat("b", 200_000),
	},
		"image": strings.Repeat("i", 2000), "ingress": schema.Node{"host": strings.Repeat("h", 300)}}, `{"port":81}`},
	{"useless", "apps", schema.Node{"resources": schema.Node{
		"claims":   []any{schema.Node{"name": "a"}},
		"requests": schema.Node{"cpu": 1, "memory": 2}, "limits": schema.Node{"memory": "1"},
	}, "autoscaling": schema.Node{"maxReplicas": 3, "minReplicas": 4},
		"env": []any{
			schema.Node{
				"name": "A", "valueFrom": schema.Node{"fileKeyRef": schema.Node{"volumeName": "a", "path": "b", "key": "c"}},
			},
		}}, `{"port":81}`},
	{"name.of-no-service", "apps", schema.Node{}, `{"port":81}`},
	{
		"times", "ats", schema.Node{"schedule": "2026-02-10t20:30:00z", "command": []any{strings.Repeat("a", 200_000)}},
		`{"suspend":true}`,
	},
	{
		"quantities", "databases", schema.Node{
			"version": "17", "storage": schema.Node{"size": "1e5.5"}, "owner": "pg_a", "parameters": schema.Node{"port": "1"},
		}, `{"image":"a"}`,
	},
	{"negative", "databases", schema.Node{"version": "17", "storage": schema.Node{"size": "-1"}}, `{"image":"a"}`},
	{
		"itself", "externaldatabases", schema.Node{
			"databaseName": "pg_a", "connectionSecretRef": schema.Node{
				"name": "itself-credentials",
			}, "extensions": []any{strings.Repeat("e", 99)},
		}, `{"deletionPolicy":"Delete"}`,
	},
	{"platform", "platforms", schema.Node{"namespace": "elsewhere", "components": []any{
		schema.Node{
			"name": "a", "app": schema.Node{
				"image": "a", "resources": schema.Node{"limits": schema.Node{"memory": "1e5.5"}},
			},
		},
		schema.Node{"name": "b", "at": schema.Node{"command": []any{"a"}, "schedule": "1900-01-01T00:00:00Z"}},
		schema.Node{"name": "c", "database": schema.Node{"version": "17", "storage": schema.Node{"size": "1e5.5"}}},
		schema.Node{
			"name": "d", "externalDatabase": schema.Node{"databaseName": "pg_a", "connectionSecretRef": schema.Node{"name": ""}},
		}}}, ""},
}

// loosened returns a manifest of the CustomResourceDefinitions without limits, as in a version that had no limits.
func loosened(t *testing.T) string {
	t.Helper()
	var loosen func(of schema.Node)
	loosen = func(of schema.Node) {
		if slices.ContainsFunc(schema.Patterns(of), func(pattern string) bool {
			return strings.HasPrefix(pattern, "^(19[7-9][0-9]|")
		}) {
			of["format"] = "date-time" // the format of a schedule in a version without limits
		}
		for _, limit := range []string{
			"maxLength", "minLength", "maxItems", "minItems", "maxProperties", "maximum", "minimum", "pattern", "allOf",
			"x-kubernetes-validations",
		} {
			delete(of, limit)
		}
		for _, child := range schema.Children(of) {
			loosen(child)
		}
	}
	all := schema.Definitions(t)
	for _, definition := range all {
		for _, version := range definition["spec"].(schema.Node)["versions"].([]any) {
			loosen(version.(schema.Node)["schema"].(schema.Node)["openAPIV3Schema"].(schema.Node))
		}
	}
	return string(encoded(t, schema.Node{"apiVersion": "v1", "kind": "List", "items": all}))
}

// upgraded is a cluster in which a test stores objects before it installs schemas with limits.
type upgraded struct {
	*framework.Installation
	objects dynamic.Interface
}

// installWithoutLimits returns a cluster whose CustomResourceDefinitions have no limits.
func installWithoutLimits(t *testing.T) *upgraded {
	t.Helper()
	p := &upgraded{Installation: framework.Own(t)}
	var err error
	if p.objects, err = dynamic.NewForConfig(p.Config()); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Kubectl(t.Context(), loosened(t), "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	return p
}

// upgrade installs the current CustomResourceDefinitions.
func (p *upgraded) upgrade(t *testing.T) {
	t.Helper()
	root, err := framework.Root()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Kubectl(t.Context(), "", "apply", "-f", filepath.Join(root, "artifacts", "crds")); err != nil {
		t.Fatal(err)
	}
}

// of returns a client for the objects of a resource. For a namespaced resource, the namespace is default.
func (p *upgraded) of(resource string) dynamic.ResourceInterface {
	switch resource {
	case "platforms":
		return p.objects.Resource(gvr.GroupVersionResource{Group: "windlass.dev", Version: "v1alpha1", Resource: resource})
	case "ats":
		return p.objects.Resource(gvr.GroupVersionResource{
			Group: "cnat.programming-kubernetes.info", Version: "v1", Resource: resource,
		}).Namespace("default")
	}
	return p.objects.Resource(gvr.GroupVersionResource{
		Group: "windlass.dev", Version: "v1alpha1", Resource: resource,
	}).Namespace("default")
}

// object returns an object with a name, the smallest valid spec, and the given fields of the spec.
func object(t *testing.T, resource, name string, spec schema.Node) *unstructured.Unstructured {
	t.Helper()
	for _, v := range schema.Versions(t) {
		if v.Plural != resource {
			continue
		}
		whole := v.Smallest(name)
		for field, value := range spec {
			whole["spec"].(schema.Node)[field] = value
		}
		o := &unstructured.Unstructured{}
		if err := o.UnmarshalJSON(encoded(t, whole)); err != nil {
			t.Fatal(err)
		}
		return o
	}
	t.Fatalf("artifacts/crds has no resource %s", resource)
	return nil
}

func TestStoredObjectsBeyondLimitsCanBeChangedAndDeleted(t *testing.T) {
	t.Parallel()
	p := installWithoutLimits(t)
	for _, s := range stored {
		o := object(t, s.resource, s.name, s.spec)
		framework.Eventually(t, s.resource+"/"+s.name+" to be stored", func(ctx context.Context) (bool, error) {
			_, err := p.of(s.resource).Create(ctx, o, metav1.CreateOptions{})
			return err == nil, ignoreInvalid(err) // the API server needs some time to use a changed schema
		})
	}
	p.upgrade(t)
	for _, s := range stored {
		t.Run(s.resource+"/"+s.name, func(t *testing.T) {
			o := object(t, s.resource, s.name, s.spec)
			framework.Eventually(t, "the API server to reject a similar object", func(ctx context.Context) (bool, error) {
				again := o.DeepCopy()
				again.SetName(strings.Replace(s.name, s.name[:1], "n", 1))
				if s.name == "itself" {
					again.SetName("itself")
				}
				_, err := p.of(s.resource).Create(ctx, again, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
				return apierrors.IsInvalid(err), nil
			})
			patch := func(kind types.PatchType, what, text string, subresources ...string) {
				t.Helper()
				if _, err := p.of(s.resource).Patch(t.Context(), s.name, kind, []byte(text), metav1.PatchOptions{},
					subresources...); err != nil {
					t.Errorf("%s: %.1000v", what, err)
				}
			}
			patch(types.MergePatchType, "a label", `{"metadata":{"labels":{"a":"b"}}}`)
			patch(types.MergePatchType, "a finalizer", `{"metadata":{"finalizers":["example.com/a"]}}`)
			if s.change != "" {
				patch(types.MergePatchType, "another field", `{"spec":`+s.change+`}`)
			} else {
				patch(types.JSONPatchType, "another component",
					`[{"op":"add","path":"/spec/components/-","value":{"name":"new","app":{"image":"a"}}}]`)
				patch(types.JSONPatchType, "a component's field", `[{"op":"add","path":"/spec/components/0/app/port","value":81}]`)
			}
			patch(types.MergePatchType, "the status",
				`{"status":{"observedGeneration":1,"conditions":[{"type":"Ready","status":"False","reason":"A",`+
					`"message":"","lastTransitionTime":"2026-02-10T20:30:00Z"}]}}`, "status")
			if err := p.of(s.resource).Delete(t.Context(), s.name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
			patch(types.MergePatchType, "no finalizer", `{"metadata":{"finalizers":null}}`)
			if _, err := p.of(s.resource).Get(t.Context(), s.name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("the object still exists: %v", err)
			}
		})
	}
}

func TestStoredListInPlaceOfScheduleCanBeRepairedAndDeleted(t *testing.T) {
	t.Parallel()
	p := installWithoutLimits(t)
	for _, name := range []string{"repaired", "deleted"} {
		framework.Eventually(t, "ats/"+name+" to be stored", func(ctx context.Context) (bool, error) {
			_, err := p.of("ats").Create(ctx, object(t, "ats", name, schema.Node{"schedule": []any{nil, "2026"}}),
				metav1.CreateOptions{})
			return err == nil, ignoreInvalid(err)
		})
	}
	p.upgrade(t)
	label := []byte(`{"metadata":{"labels":{"a":"b"}}}`)
	framework.Eventually(t, "the API server to reject a change that keeps the list",
		func(ctx context.Context) (bool, error) {
			_, err := p.of("ats").Patch(ctx, "repaired", types.MergePatchType, label, metav1.PatchOptions{
				DryRun: []string{metav1.DryRunAll},
			})
			return err != nil && strings.Contains(err.Error(), "schedule must be a time in RFC 3339"), ignoreInvalid(err)
		})
	for _, change := range [][]byte{[]byte(`{"spec":{"schedule":"2030-01-01T00:00:00Z"}}`), label} {
		if _, err := p.of("ats").Patch(t.Context(), "repaired", types.MergePatchType, change,
			metav1.PatchOptions{}); err != nil {
			t.Errorf("patching with %s: %v", change, err)
		}
	}
	if err := p.of("ats").Delete(t.Context(), "deleted", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

func TestUpgradeToLimitsRestartsNothing(t *testing.T) {
	t.Parallel()
	p := installWithoutLimits(t)
	old := framework.Launch(t, p.Cluster)
	spec := schema.Node{
		"image": "registry.example.com/" + strings.Repeat("i", 1500), "autoscaling": schema.Node{"maxReplicas": 3},
	}
	framework.Eventually(t, "the App to be stored", func(ctx context.Context) (bool, error) {
		_, err := p.of("apps").Create(ctx, object(t, "apps", "large", spec), metav1.CreateOptions{})
		return err == nil, ignoreInvalid(err)
	})
	p.AppIn(t, "default", "large", v1alpha1.AppReady)
	template := func() int64 {
		deployment, err := p.Kube.AppsV1().Deployments("default").Get(t.Context(), "large", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return deployment.Generation
	}
	generation := template()
	if code := old.Terminate(); code != 0 {
		t.Fatalf("the controller ended with exit code %d", code)
	}
	p.upgrade(t)
	renewed := framework.Launch(t, p.Cluster)
	defer renewed.Terminate()
	canary(t, p.Installation)
	p.AppIn(t, "default", "large", v1alpha1.AppReady)
	if again := template(); again != generation {
		t.Errorf("the Deployment has generation %d, want %d", again, generation)
	}
	if err := p.of("apps").Delete(t.Context(), "large", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	framework.Eventually(t, "the App to be deleted", func(ctx context.Context) (bool, error) {
		_, err := p.of("apps").Get(ctx, "large", metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
}
