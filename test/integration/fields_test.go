//go:build integration

package integration

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/world"
)

// changes of each field of an App, by the field's name in JSON: to another value, and
// to none where that is allowed.
var changes = map[string][]func(*v1alpha1.AppSpec){
	"image":    {func(s *v1alpha1.AppSpec) { s.Image = "other:1" }},
	"replicas": {func(s *v1alpha1.AppSpec) { s.Replicas = ptr.To[int32](1) }, func(s *v1alpha1.AppSpec) { s.Autoscaling, s.Replicas = nil, ptr.To[int32](1) }},
	"port":     {func(s *v1alpha1.AppSpec) { s.Port = 9001 }},
	"command":  {func(s *v1alpha1.AppSpec) { s.Command = []string{"/other", "x"} }, func(s *v1alpha1.AppSpec) { s.Command = nil }},
	"args":     {func(s *v1alpha1.AppSpec) { s.Args = []string{"--other"} }, func(s *v1alpha1.AppSpec) { s.Args = nil }},
	"env": {
		func(s *v1alpha1.AppSpec) { s.Env[0].Value = "debug" },
		func(s *v1alpha1.AppSpec) { s.Env = append(s.Env, corev1.EnvVar{Name: "MORE"}) },
		func(s *v1alpha1.AppSpec) { s.Env[0], s.Env[1] = s.Env[1], s.Env[0] },
		func(s *v1alpha1.AppSpec) { s.Env = s.Env[1:] },
		func(s *v1alpha1.AppSpec) { s.Env = nil },
	},
	"envFrom": {func(s *v1alpha1.AppSpec) { s.EnvFrom = s.EnvFrom[:1] }, func(s *v1alpha1.AppSpec) { s.EnvFrom = nil }},
	"config": {
		func(s *v1alpha1.AppSpec) { s.Config = map[string]string{"shop.toml": "changed"} },
		func(s *v1alpha1.AppSpec) { s.Config = nil },
	},
	"ingress": {
		func(s *v1alpha1.AppSpec) {
			s.Ingress = &v1alpha1.AppIngress{Host: "else.example.com", ClassName: ptr.To("else")}
		},
		func(s *v1alpha1.AppSpec) { s.Ingress = nil },
	},
	"autoscaling": {
		func(s *v1alpha1.AppSpec) { s.Autoscaling = &v1alpha1.AppAutoscaling{MaxReplicas: 9} },
		func(s *v1alpha1.AppSpec) { s.Autoscaling = nil },
	},
	"resources": {
		func(s *v1alpha1.AppSpec) {
			s.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1.5")}
		},
		func(s *v1alpha1.AppSpec) { s.Resources = corev1.ResourceRequirements{} },
	},
	"probe":              {func(s *v1alpha1.AppSpec) { s.Probe = &v1alpha1.AppProbe{Path: "/else"} }, func(s *v1alpha1.AppSpec) { s.Probe = nil }},
	"databaseRef":        {func(s *v1alpha1.AppSpec) { s.DatabaseRef = nil }},
	"serviceAccountName": {func(s *v1alpha1.AppSpec) { s.ServiceAccountName = "" }},
	"imagePullSecrets": {
		func(s *v1alpha1.AppSpec) { s.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "else"}} },
		func(s *v1alpha1.AppSpec) { s.ImagePullSecrets = nil },
	},
}

// made makes an App "shop", and returns its namespace once it is Ready.
func made(t *testing.T, spec v1alpha1.AppSpec) (namespace string) {
	t.Helper()
	namespace = shared.NewNamespace(t)
	shared.MakeReferences(t, namespace)
	shared.CreateApp(t, namespace, "shop", spec)
	shared.AppIn(t, namespace, "shop", v1alpha1.AppReady)
	return namespace
}

// same waits until the children in one namespace are as those in another.
func same(t *testing.T, client dynamic.Interface, wanted, namespace, what string) {
	t.Helper()
	for _, resource := range childTypes {
		world.Eventually(t, resource.Resource+" to be "+what, func(context.Context) (bool, error) {
			return cmp.Equal(essence(child(t, client, resource, wanted, "shop")), essence(child(t, client, resource, namespace, "shop"))), nil
		})
	}
}

// TestAFieldThatIsChangedAndChangedBackLeavesNothing compares the children with those
// of an App that was made with the changed spec, and of one that was never changed.
func TestAFieldThatIsChangedAndChangedBackLeavesNothing(t *testing.T) {
	t.Parallel()
	client := dynamicClient(t)
	everything := made(t, world.Everything())
	for _, field := range fieldsOf(t) {
		if len(changes[field]) == 0 {
			t.Errorf("field %s is not changed by this test", field)
		}
		for _, change := range changes[field] {
			t.Run(field, func(t *testing.T) {
				t.Parallel()
				changed := world.Everything()
				change(&changed)
				other, namespace := made(t, changed), made(t, world.Everything())
				shared.UpdateApp(t, namespace, "shop", func(app *v1alpha1.App) { app.Spec = changed })
				shared.AppIn(t, namespace, "shop", v1alpha1.AppReady)
				same(t, client, other, namespace, "as if made so")
				shared.UpdateApp(t, namespace, "shop", func(app *v1alpha1.App) { app.Spec = world.Everything() })
				shared.AppIn(t, namespace, "shop", v1alpha1.AppReady)
				same(t, client, everything, namespace, "as if never changed")
			})
		}
	}
}

// fieldsOf are the fields of an App's spec in JSON. world.Everything uses them all.
func fieldsOf(t *testing.T) []string {
	t.Helper()
	text, err := json.Marshal(world.Everything())
	if err != nil {
		t.Fatal(err)
	}
	var used map[string]any
	if err := json.Unmarshal(text, &used); err != nil {
		t.Fatal(err)
	}
	var names []string
	spec := reflect.TypeFor[v1alpha1.AppSpec]()
	for i := range spec.NumField() {
		name, _, _ := strings.Cut(spec.Field(i).Tag.Get("json"), ",")
		if _, ok := used[name]; !ok {
			t.Errorf("field %s is not used by world.Everything", name)
		}
		names = append(names, name)
	}
	return names
}

func TestWhatIsTakenOutOfAnAppGoes(t *testing.T) {
	t.Parallel()
	namespace, client := shared.NewNamespace(t), dynamicClient(t)
	shared.MakeReferences(t, namespace)
	shared.CreateApp(t, namespace, "shop", world.Everything())
	shared.AppIn(t, namespace, "shop", v1alpha1.AppReady)
	for _, wanted := range []bool{false, true} {
		shared.UpdateApp(t, namespace, "shop", func(app *v1alpha1.App) {
			app.Labels, app.Spec = map[string]string{"team": "storefront"}, world.Everything()
			if !wanted {
				app.Labels, app.Spec = nil, v1alpha1.AppSpec{Image: "shop:1"}
			}
		})
		shared.AppIn(t, namespace, "shop", v1alpha1.AppReady)
		for _, resource := range childTypes {
			always := resource.Resource == "deployments" || resource.Resource == "services"
			world.Eventually(t, resource.Resource, func(context.Context) (bool, error) {
				object := child(t, client, resource, namespace, "shop")
				if object == nil || !wanted && !always {
					return object == nil && !wanted && !always, nil
				}
				_, labelled := object.GetLabels()["team"]
				return labelled == wanted, nil
			})
		}
	}
}
