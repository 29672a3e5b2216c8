package children

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"windlass.dev/windlass/pkg/controller/controllertest"
)

func TestInOrderSortsCausesOfInvalidError(t *testing.T) {
	limits := field.NewPath("spec", "limits")
	a := field.Invalid(limits.Key("gpu"), "-9", "must be greater than or equal to 0")
	b := field.Required(limits.Key("cpu"), "must be set")
	rejection := func(causes ...*field.Error) error {
		return apierrors.NewInvalid(schema.GroupKind{Group: "apps", Kind: "StatefulSet"}, "shop", causes)
	}
	one, other := inOrder(rejection(a, b)), inOrder(rejection(b, a))
	const want = `StatefulSet.apps "shop" is invalid: [spec.limits[cpu]: Required value: must be set, ` +
		`spec.limits[gpu]: Invalid value: "-9": must be greater than or equal to 0]`
	controllertest.Equal(t, "error", want, one.Error())
	controllertest.Equal(t, "error in another order", want, other.Error())
	if !apierrors.IsInvalid(one) {
		t.Error("it is no longer known as invalid")
	}
	for name, err := range map[string]error{
		"one cause": rejection(a), "another error": errors.New("no answer"), "no error": nil,
	} {
		if got := inOrder(err); got != err { //nolint:errorlint // must be the same value
			t.Errorf("%s became %v", name, got)
		}
	}
}
