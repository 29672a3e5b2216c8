package lenient_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/cache/budget"
	"windlass.dev/windlass/pkg/cache/lenient"
)

// large returns an App with an argument of size bytes. The UID depends on n.
func large(n, size int) *v1alpha1.App {
	app := &v1alpha1.App{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web", UID: types.UID(fmt.Sprint(n)), Finalizers: []string{"windlass.dev/app"},
		},
		Spec: v1alpha1.AppSpec{Image: "web:1", Args: []string{strings.Repeat("x", size)}},
	}
	app.Status.ObservedGeneration = 2
	return app
}

func transformed(t *testing.T, transform cache.TransformFunc, app *v1alpha1.App) *v1alpha1.App {
	t.Helper()
	obj, err := transform(app)
	if err != nil {
		t.Fatal(err)
	}
	return obj.(*v1alpha1.App)
}

func reasonOf(app *v1alpha1.App) string {
	if mark := lenient.MarkOn(app); mark != nil {
		return mark.Reason
	}
	return ""
}

func TestTransformLimitsAnObject(t *testing.T) {
	t.Parallel()
	transform := lenient.Transform(&budget.Budget{}, "windlass.dev")
	for name, tt := range map[string]struct {
		size   int
		change func(m *metav1.ObjectMeta)
		reason string
	}{
		"a small object":              {100, nil, ""},
		"a large object":              {budget.Object - 1<<10, nil, ""},
		"an object that is too large": {budget.Object, nil, lenient.ReasonTooLarge},
		"an object with many labels": {100, func(m *metav1.ObjectMeta) {
			m.Labels = map[string]string{"a": strings.Repeat("l", budget.Object)}
		}, lenient.ReasonTooLarge},
		"an object with large managed fields": {100, func(m *metav1.ObjectMeta) {
			m.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: strings.Repeat("m", budget.Object)}}
		}, ""},
		"an object with a large annotation of another domain": {100, func(m *metav1.ObjectMeta) {
			m.Annotations = map[string]string{"a": strings.Repeat("x", budget.Object)}
		}, ""},
		"an object that cannot be decoded": {0, func(m *metav1.ObjectMeta) {
			m.Labels = map[string]string{"a": "b"}
			mark := lenient.Mark{Reason: lenient.ReasonUnreadable, Cause: strings.Repeat("\x00", 256)}
			if err := mark.SetOn(m); err != nil {
				t.Error(err)
			}
		}, lenient.ReasonUnreadable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			app := large(len(name), tt.size)
			if tt.change != nil {
				tt.change(&app.ObjectMeta)
			}
			for range 2 { // an informer may transform an object twice
				app = transformed(t, transform, app)
				if reasonOf(app) != tt.reason {
					t.Fatalf("its reason is %q, want %q", reasonOf(app), tt.reason)
				}
				if whole := app.Spec.Image != ""; whole != (tt.reason == "") || !whole && len(app.Labels) > 0 {
					t.Errorf("its spec is cached: %v, and its labels are %v", whole, app.Labels)
				}
				if app.Name != "web" || len(app.Finalizers) != 1 || app.Status.ObservedGeneration != 2 ||
					len(app.ManagedFields) > 0 {
					t.Errorf("it is %+v", app.ObjectMeta)
				}
			}
		})
	}
}

func TestTransformLimitsANamespace(t *testing.T) {
	t.Parallel()
	transform, held, exceeding := lenient.Transform(&budget.Budget{}), []*v1alpha1.App{}, 0
	for n := range 40 {
		app := transformed(t, transform, large(n, budget.Object-1<<12))
		if held = append(held, app); reasonOf(app) == lenient.ReasonBudgetExceeded {
			exceeding++
		}
	}
	if want := 40 - budget.Namespace/budget.Object; exceeding != want {
		t.Errorf("%d objects exceed the budget, want %d", exceeding, want)
	}
	if again := transformed(t, transform, large(0, budget.Object-1<<12)); reasonOf(again) != "" {
		t.Error("another version of an object that fits does not fit")
	}
	runtime.KeepAlive(held)
}

func TestTransformKeepsAnnotationsOfItsDomains(t *testing.T) {
	t.Parallel()
	for want, domains := range map[int][]string{1: {"windlass.dev", "example.com"}, 2: nil} {
		app := large(1, 100)
		app.Annotations = map[string]string{
			"kubectl.kubernetes.io/last-applied-configuration": "{}", "windlass.dev/paused": "true",
		}
		got := transformed(t, lenient.Transform(&budget.Budget{}, domains...), app)
		if len(got.Annotations) != want || got.Annotations["windlass.dev/paused"] != "true" {
			t.Errorf("with the domains %v it has %v", domains, got.Annotations)
		}
	}
}
