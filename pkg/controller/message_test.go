package controller_test

import (
	"errors"
	"testing"
	"time"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

func TestMessageFillsPlaceholders(t *testing.T) {
	for name, c := range map[string]struct {
		template, want string
		values         []any
	}{
		"without placeholders":       {"All Pods run.", "All Pods run.", nil},
		"in the order of appearance": {"Pod {pod} of {app} ended.", "Pod a of b ended.", []any{"a", "b"}},
		"a placeholder that appears twice": {
			"Pod {pod} ended. See {pod} after {n} s.", "Pod a ended. See a after 3 s.", []any{"a", 3},
		},
		"a value that has a placeholder": {"Pod {pod} of {app} ended.", "Pod {app} of b ended.", []any{"{app}", "b"}},
		"too few values":                 {"Pod {pod} of {app} ended.", "Pod a of {app} ended.", []any{"a"}},
		"too many values":                {"Pod {pod} ended.", "Pod a ended.", []any{"a", "b"}},
		"a brace that is not closed":     {"Pod {pod ended.", "Pod {pod ended.", []any{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := controller.NewCatalog("Toy").Declare("Ended", c.template, "Nothing to do.")
			controllertest.Equal(t, "message", c.want, m.With(c.values...))
		})
	}
}

func TestMessageBecomesError(t *testing.T) {
	cause := errors.New("broken")
	m := controller.NewCatalog("Toy").Declare("Broken", "pod {pod} is {cause}", "Mend it.")
	err := m.Error("a", cause)
	controllertest.Equal(t, "text", "pod a is broken", err.Error())
	controllertest.Equal(t, "reason", "Broken", controller.ReasonOf(err))
	controllertest.Equal(t, "wraps the cause", true, errors.Is(err, cause))
	controllertest.Equal(t, "reason of waiting", "Broken", controller.ReasonOf(m.Wait(time.Second, "a", cause)))
}

func TestCatalogNamesUnusedMessages(t *testing.T) {
	catalog := controller.NewCatalog("Toy")
	used := catalog.Declare("Used", "It is used.", "")
	catalog.Declare("Unused", "It is not used.", "")
	_ = used.Note()
	controllertest.Equal(t, "unused", []string{"Unused: It is not used."}, catalog.Unused())
}
