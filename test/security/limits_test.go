//go:build integration

package security

import (
	"fmt"
	"strings"
	"testing"

	"windlass.dev/windlass/test/framework"
	"windlass.dev/windlass/test/schema"
)

// overLimit returns a value that exceeds the limit of a schema by one, and a part of the error with which the API
// server rejects the value. ok is false if the schema has no limit.
func overLimit(of schema.Node) (value any, rejection string, ok bool) {
	if most, found := schema.Number(of["maxLength"]); found {
		return strings.Repeat("1", most+1), "Too long", true
	}
	if most, found := schema.Number(of["maxItems"]); found {
		items := make([]any, most+1)
		for i := range items {
			items[i] = fmt.Sprint(i)
			if schema.Children(of)["[]"]["type"] == "object" {
				items[i] = schema.Node{"name": fmt.Sprint(i)}
			}
		}
		return items, "Too many", true
	}
	if most, found := schema.Number(of["maxProperties"]); found {
		values := schema.Node{}
		for i := range most + 1 {
			values[fmt.Sprint("a", i)] = "1"
		}
		return values, "Too many", true
	}
	return nil, "", false
}

func TestSchemaRejectsValuesBeyondLimits(t *testing.T) {
	framework.InQuarter(t)
	t.Parallel()
	tenant, limits := shared.NewTenant(t), 0
	for _, v := range schema.Versions(t) {
		client := tenant.Kube.Discovery().RESTClient()
		if !v.Namespaced {
			client = shared.Kube.Discovery().RESTClient()
		}
		for _, f := range v.Fields("spec") {
			value, rejection, ok := overLimit(f.Schema)
			if !ok {
				continue
			}
			limits++
			response, err := dryRunCreate(t.Context(), t, client, v, tenant.Namespace, encoded(t, f.Object("odd", value)))
			if err == nil || !strings.Contains(string(response), rejection) {
				t.Errorf("the API server does not reject %s with %q: %v: %.500s", f, rejection, err, response)
			}
		}
	}
	if limits < 150 {
		t.Errorf("found only %d limits in the specs, want at least 150", limits)
	}
}

func TestSchemaEnforcesAppLimits(t *testing.T) {
	t.Parallel()
	tenant := shared.NewTenant(t)
	many := func(n int, of func(i int) any) []any {
		items := make([]any, n)
		for i := range items {
			items[i] = of(i)
		}
		return items
	}
	for name, tt := range map[string]struct {
		spec      schema.Node
		rejection string
	}{
		"an argument of the largest length in Linux": {schema.Node{"args": []any{strings.Repeat("ä", 128<<10)}}, ""},
		"very many arguments": {
			schema.Node{"args": many(1024, func(i int) any { return fmt.Sprint(i) })}, "",
		},
		"very many variables": {
			schema.Node{"env": many(1024, func(i int) any { return schema.Node{"name": fmt.Sprint("A", i), "value": "b"} })}, "",
		},
		"a variable with a long value": {
			schema.Node{"env": []any{schema.Node{"name": "A", "value": strings.Repeat("b", 128<<10)}}}, "",
		},
		"a large file": {schema.Node{"config": schema.Node{"a": strings.Repeat("b", 512<<10)}}, ""},
		"two files that are too large together": {
			schema.Node{"config": schema.Node{"a": strings.Repeat("b", 512<<10), "c": "d"}}, "524288 characters in total",
		},
		"an autoscaler with a request for CPU": {
			schema.Node{
				"autoscaling": schema.Node{"maxReplicas": 3}, "resources": schema.Node{"requests": schema.Node{"cpu": "1"}},
			}, "",
		},
		"an autoscaler with a limit of CPU": {
			schema.Node{
				"autoscaling": schema.Node{"maxReplicas": 3}, "resources": schema.Node{"limits": schema.Node{"cpu": 1}},
			}, "",
		},
		"an autoscaler with only a target for memory": {
			schema.Node{
				"autoscaling": schema.Node{"maxReplicas": 3, "targetMemoryUtilizationPercentage": 80},
				"resources":   schema.Node{"requests": schema.Node{"memory": "1Gi"}},
			}, "",
		},
		"an autoscaler without either": {
			schema.Node{
				"autoscaling": schema.Node{"maxReplicas": 3}, "resources": schema.Node{"requests": schema.Node{"memory": "1Gi"}},
			}, "autoscaling needs resources.requests.cpu",
		},
		"an autoscaler whose minimum is the maximum": {
			schema.Node{
				"autoscaling": schema.Node{"minReplicas": 3, "maxReplicas": 3}, "resources": schema.Node{
					"limits": schema.Node{"cpu": 1},
				},
			}, "",
		},
		"an autoscaler whose minimum is larger": {
			schema.Node{
				"autoscaling": schema.Node{"minReplicas": 4, "maxReplicas": 3}, "resources": schema.Node{
					"limits": schema.Node{"cpu": 1},
				},
			}, "must not be greater than",
		},
		"a claim of a device": {
			schema.Node{"resources": schema.Node{"claims": []any{schema.Node{"name": "gpu"}}}}, "claims cannot be used",
		},
		"no claim of a device": {schema.Node{"resources": schema.Node{"claims": []any{}}}, ""},
		"a variable from a file": {schema.Node{"env": []any{schema.Node{"name": "A", "valueFrom": schema.Node{
			"fileKeyRef": schema.Node{"volumeName": "a", "path": "b", "key": "c"}}}}}, "fileKeyRef cannot be used"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.spec["image"] = "registry.example.com/app:1"
			app := schema.Version{Group: "windlass.dev", Name: "v1alpha1", Kind: "App", Plural: "apps", Namespaced: true}
			platform := schema.Version{Group: "windlass.dev", Name: "v1alpha1", Kind: "Platform", Plural: "platforms"}
			for _, object := range []schema.Node{
				{"kind": app.Kind, "spec": tt.spec},
				{
					"kind": platform.Kind, "spec": schema.Node{
						"namespace": tenant.Namespace, "components": []any{schema.Node{"name": "a", "app": tt.spec}},
					},
				},
			} {
				object["apiVersion"], object["metadata"] = "windlass.dev/v1alpha1", schema.Node{"name": "limits"}
				of := app
				if object["kind"] == platform.Kind {
					of = platform
				}
				response, err := dryRunCreate(t.Context(), t, shared.Kube.Discovery().RESTClient(), of,
					tenant.Namespace, encoded(t, object))
				if (tt.rejection == "") != (err == nil) || !strings.Contains(string(response), tt.rejection) {
					t.Errorf("the %s is accepted: %v; want a rejection with %q: %.500s", of.Kind, err == nil, tt.rejection, response)
				}
			}
		})
	}
}

func TestKindsHaveShortNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"app", "cnat", "db", "extdb", "plat", "windlass"} {
		if _, err := shared.Kubectl(t.Context(), "", "get", name, "--all-namespaces"); err != nil {
			t.Error(err)
		}
	}
}
