package app

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

func TestSpecAnnotationHasAllFieldsExceptKeptOnes(t *testing.T) {
	for field := range reflect.TypeFor[v1alpha1.AppSpec]().Fields() {
		app := example(withAllChildren)
		set := reflect.ValueOf(&app.Spec).Elem().FieldByIndex(field.Index)
		if set.IsZero() {
			fill(set)
		}
		d := &appsv1.Deployment{}
		setSpec(app, d)
		recorded := decoded(t, d.Annotations[SpecAnnotation])
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if _, found := recorded[name]; found == slices.Contains(keptFields, name) {
			t.Errorf("the annotation has the field %s: %t", name, found)
		}
	}
}

// fill sets a field to a value that is not empty.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem())
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(field)
		}
	case reflect.String:
		v.SetString("a")
	default:
		v.SetInt(1)
	}
}

func decoded(t *testing.T, text string) (fields map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &fields); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	return fields
}

func TestKeptFieldsChangeNoTemplate(t *testing.T) {
	f := readyFixture(t)
	before := f.deployment()
	f.Change(func(app *v1alpha1.App) {
		app.Spec.Replicas, app.Spec.Service = nil, &v1alpha1.AppService{Annotations: map[string]string{"a": "b"}}
		app.Spec.Autoscaling = &v1alpha1.AppAutoscaling{MaxReplicas: 3}
		app.Spec.Ingress = &v1alpha1.AppIngress{Host: "a.example.com"}
		app.Spec.Rollout = &v1alpha1.AppRollout{MinReadySeconds: ptr.To[int32](9)}
		app.Spec.Metadata.Labels = map[string]v1alpha1.LabelValue{"team": "shop"}
	})
	f.Reconcile()
	after := f.deployment()
	controllertest.Equal(t, "template", before.Spec.Template, after.Spec.Template)
	controllertest.Equal(t, "annotation", before.Annotations[SpecAnnotation], after.Annotations[SpecAnnotation])
	controllertest.Equal(t, "minReadySeconds", int32(9), after.Spec.MinReadySeconds)
}

func TestSpecAnnotationBelongsToTemplate(t *testing.T) {
	f := readyFixture(t)
	before := f.deployment().Annotations[SpecAnnotation]
	controllertest.Equal(t, "annotation", `{"image":"web:1","port":8080}`, before)

	f.Change(func(app *v1alpha1.App) {
		app.Spec.Image, app.Spec.BeforeRollout = "web:2", &v1alpha1.AppBeforeRollout{Args: []string{"migrate"}}
		app.Spec.Rollout = &v1alpha1.AppRollout{MinReadySeconds: ptr.To[int32](9)}
	})
	for range 3 {
		f.Reconcile()
	}
	held := f.deployment()
	controllertest.Equal(t, "image while beforeRollout runs", "web:1", held.Spec.Template.Spec.Containers[0].Image)
	controllertest.Equal(t, "annotation while beforeRollout runs", before, held.Annotations[SpecAnnotation])
}

func TestAnnotationOfLargeSpecIsEmpty(t *testing.T) {
	f := readyFixture(t, withFiles(strings.Repeat("a", maxSpec)))
	if value, found := f.deployment().Annotations[SpecAnnotation]; !found || value != "" {
		t.Errorf("got the annotation %q, and found is %t", value, found)
	}
}

func TestRollBackKeepsFieldsOfCurrentSpec(t *testing.T) {
	spec := decoded(t, `{"image":"web:2","args":["x"],"replicas":3,"ingress":{"host":"a"}}`)
	previous := decoded(t, `{"image":"web:1","port":81,"replicas":7,"service":{}}`)
	controllertest.Equal(t, "spec", decoded(t, `{"image":"web:1","port":81,"replicas":3,"ingress":{"host":"a"}}`),
		RollBack(spec, previous))
	controllertest.Equal(t, "previous spec", decoded(t, `{"image":"web:1","port":81,"replicas":7,"service":{}}`), previous)
}

func TestRollBackKeepsDeletionPolicyOfClaims(t *testing.T) {
	f := readyFixture(t, withData("1Gi"), withPolicy(v1alpha1.DeletionDelete))
	annotation := f.deployment().Annotations[SpecAnnotation]
	if strings.Contains(annotation, "deletionPolicy") {
		t.Errorf("the recorded spec has a deletionPolicy: %s", annotation)
	}
	const volumes = `{"volumes":[{"name":"data","claim":{"size":"1Gi"%s}}, {"name":"tmp","emptyDir":{}}]}`
	kept := decoded(t, fmt.Sprintf(volumes, `,"deletionPolicy":"Retain"`))
	controllertest.Equal(t, "spec", kept, RollBack(kept, decoded(t, fmt.Sprintf(volumes, ""))))
}
