package planner

import (
	"testing"

	"windlass.dev/windlass/pkg/controller/controllertest"
)

func TestCreatedObjectHasNoFieldWithNull(t *testing.T) {
	object := map[string]any{
		"spec": map[string]any{"gone": nil, "items": []any{map[string]any{"name": "a", "gone": nil}, nil}},
	}
	removeNulls(object)
	want := map[string]any{"spec": map[string]any{"items": []any{map[string]any{"name": "a"}, nil}}}
	controllertest.Equal(t, "object", want, object)
}
