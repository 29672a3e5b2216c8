package controller_test

import (
	"testing"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

func TestTrackerRemembersRewrites(t *testing.T) {
	tracker, a, b := controller.NewTracker(), keyOf("a"), keyOf("b")
	note := controller.Note{Reason: "ChangedByAdmission", Message: "spec.image"}
	tracker.RecordRewrite(a, "Deployment", 1, note)
	tracker.RecordRewrite(a, "Deployment", 2, note)
	tracker.RecordRewrite(a, "Service", 3, note)
	for name, test := range map[string]struct {
		key    controller.Key
		object string
		token  uint64
		want   bool
	}{
		"the last rewrite of an object":       {a, "Deployment", 2, true},
		"not the previous rewrite":            {a, "Deployment", 1, false},
		"another object of the same key":      {a, "Service", 3, true},
		"not the object of another key":       {b, "Deployment", 2, false},
		"not an object that was not recorded": {a, "Ingress", 0, false},
	} {
		controllertest.Equal(t, name, test.want, tracker.IsRewrite(test.key, test.object, test.token))
	}
	tracker.ForgetRewrite(a, "Deployment")
	controllertest.Equal(t, "after ForgetRewrite", false, tracker.IsRewrite(a, "Deployment", 2))
	controllertest.Equal(t, "another object after ForgetRewrite", true, tracker.IsRewrite(a, "Service", 3))
	tracker.Forget(a)
	controllertest.Equal(t, "after Forget", false, tracker.IsRewrite(a, "Service", 3))
}
