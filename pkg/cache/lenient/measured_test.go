package lenient_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/cache/budget"
	"windlass.dev/windlass/pkg/cache/lenient"
	"windlass.dev/windlass/pkg/controller"
)

// large returns an App with an argument of size bytes. The UID depends on n.
func large(n, size int) *v1alpha1.App {
	return &v1alpha1.App{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: types.UID(fmt.Sprint(n)), ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}},
		Spec:       v1alpha1.AppSpec{Image: "web:1", Args: []string{strings.Repeat("x", size)}},
	}
}

func TestMeasuredLimitsAnObject(t *testing.T) {
	transform := lenient.Measured(&budget.Budget{})
	for name, test := range map[string]struct {
		app    *v1alpha1.App
		reason string
	}{
		"a small object":              {large(1, 100), ""},
		"a large object":              {large(2, budget.Object-1<<10), ""},
		"an object that is too large": {large(3, budget.Object), lenient.ReasonTooLarge},
		"an object with too many labels": {func() *v1alpha1.App {
			a := large(4, 0)
			a.Labels = map[string]string{"a": strings.Repeat("l", budget.Object)}
			return a
		}(), lenient.ReasonTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 { // an informer may transform an object twice
				test.app = transformed(t, transform, test.app)
				why := controller.UnreadableIn(test.app)
				if reason := reasonOf(why); reason != test.reason {
					t.Errorf("reason: wanted %q, got %q", test.reason, reason)
				}
				if whole := test.app.Spec.Image != ""; whole != (test.reason == "") {
					t.Errorf("the spec is cached: %v", whole)
				}
				if len(test.app.ManagedFields) > 0 {
					t.Error("it has managed fields")
				}
			}
		})
	}
}

func TestMeasuredLimitsANamespace(t *testing.T) {
	transform, cached, refused := lenient.Measured(&budget.Budget{}), []*v1alpha1.App{}, 0
	for n := range 20 {
		app := transformed(t, transform, large(n, budget.Object/2))
		if cached = append(cached, app); reasonOf(controller.UnreadableIn(app)) == lenient.ReasonBudgetExceeded {
			refused++
		}
	}
	if want := 20 - 2*budget.Namespace/budget.Object + 1; refused != want {
		t.Errorf("%d of %d objects are refused, want %d", refused, len(cached), want)
	}
}
