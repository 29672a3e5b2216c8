package controller_test

import (
	"testing"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

func TestTrackerRemembersNoOps(t *testing.T) {
	tracker, a, b := controller.NewTracker(), keyOf("a"), keyOf("b")
	tracker.RecordNoOp(a, "Service", 1)
	tracker.RecordNoOp(a, "Deployment", 2)
	tracker.RecordNoOp(a, "Service", 3)
	for name, test := range map[string]struct {
		key        controller.Key
		comparison string
		token      uint64
		want       bool
	}{
		"the last one of a name":                {a, "Service", 3, true},
		"not the former one of the name":        {a, "Service", 1, false},
		"another one of the same key":           {a, "Deployment", 2, true},
		"not one with the token of another":     {a, "Deployment", 3, false},
		"not one of another key":                {b, "Service", 3, false},
		"no comparison that was never recorded": {a, "Ingress", 0, false},
	} {
		controllertest.Equal(t, name, test.want, tracker.IsNoOp(test.key, test.comparison, test.token))
	}
	tracker.Forget(a)
	controllertest.Equal(t, "after Forget", false, tracker.IsNoOp(a, "Deployment", 2))
}
