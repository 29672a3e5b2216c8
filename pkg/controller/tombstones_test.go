package controller_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

func TestTrackerRemembersDeletedObjects(t *testing.T) {
	tracker, a, b := controller.NewTracker(), keyOf("a"), keyOf("b")
	tracker.Deleted(a, "Service", "service-uid")
	tracker.Deleted(a, "Pod", "previous-uid")
	tracker.Deleted(a, "Pod", "pod-uid")
	for name, test := range map[string]struct {
		key    controller.Key
		object string
		uid    types.UID
		want   bool
	}{
		"the object that was deleted":         {a, "Pod", "pod-uid", true},
		"another object of the same key":      {a, "Service", "service-uid", true},
		"not the previous object of the name": {a, "Pod", "previous-uid", false},
		"not the next object of the name":     {a, "Pod", "next-uid", false},
		"not an object under another name":    {a, "Job", "pod-uid", false},
		"not an object of another key":        {b, "Pod", "pod-uid", false},
		"not an object without a UID":         {a, "Job", "", false},
	} {
		controllertest.Equal(t, name, test.want, tracker.IsDeleted(test.key, test.object, test.uid))
	}
	if err := tracker.Observed(a); err != nil {
		t.Errorf("a deletion is waited for: %v", err)
	}
	tracker.Forget(a)
	controllertest.Equal(t, "after Forget", false, tracker.IsDeleted(a, "Pod", "pod-uid"))
}
