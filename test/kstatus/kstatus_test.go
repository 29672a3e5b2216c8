package kstatus

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/conditions"
)

// page is the page with the table that the test checks.
const page = "../../docs/status.md"

// row matches a row of the table: kind, phase, state, Ready, and the result of kstatus.
var row = regexp.MustCompile(`(?m)^\| (At|App|Database|ExternalDatabase|Platform|any) \| ([^|]*) \| (\w+) \| ([^|]*) ` +
	`\| (\w+) \|$`)

// kinds maps each kind to all its phases, and to a function that returns an object in a phase.
var kinds = map[string]struct {
	phases []string
	object func(phase string) controller.Object
}{
	"At": {[]string{"Pending", "Running", "Done"}, func(phase string) controller.Object {
		return &cnatv1.At{Status: cnatv1.AtStatus{Phase: cnatv1.AtPhase(phase)}}
	}},
	"App": {[]string{"Pending", "Deploying", "Ready", "Failed"}, func(phase string) controller.Object {
		return &v1alpha1.App{Status: v1alpha1.AppStatus{Phase: v1alpha1.AppPhase(phase)}}
	}},
	"Database": {[]string{"Pending", "Deploying", "Ready", "Failed"}, func(phase string) controller.Object {
		return &v1alpha1.Database{Status: v1alpha1.DatabaseStatus{Phase: v1alpha1.DatabasePhase(phase)}}
	}},
	"ExternalDatabase": {[]string{"Pending", "Ready", "Failed"}, func(phase string) controller.Object {
		return &v1alpha1.ExternalDatabase{
			Status: v1alpha1.ExternalDatabaseStatus{Phase: v1alpha1.ExternalDatabasePhase(phase)},
		}
	}},
	"Platform": {[]string{"Pending", "Deploying", "Ready", "Failed"}, func(phase string) controller.Object {
		return &v1alpha1.Platform{Status: v1alpha1.PlatformStatus{Phase: v1alpha1.PlatformPhase(phase)}}
	}},
}

// summaries maps states in the table to the states from which the engine sets the conditions.
var summaries = map[string]controller.State{
	"Progressing": controller.StateProgressing, "Ready": controller.StateReady, "Idle": controller.StateIdle,
	"Degraded": controller.StateDegraded, "Stalled": controller.StateStalled,
}

// special maps the other states in the table to functions that change a Ready object.
var special = map[string]func(controller.Object){
	"New":     func(o controller.Object) { *o.StatusConditions(), *o.StatusObservedGeneration() = nil, 0 },
	"Changed": func(o controller.Object) { o.SetGeneration(2) },
	"Deleted": func(o controller.Object) { o.SetDeletionTimestamp(ptr.To(metav1.Now())) },
	"DeletionFails": func(o controller.Object) {
		o.SetDeletionTimestamp(ptr.To(metav1.Now()))
		controller.Summary{
			State: controller.StateDegraded, Note: controller.Note{Reason: "Forbidden", Message: "Message."},
		}.SetOn(o)
	},
	"Paused": pause,
	"PausedChanged": func(o controller.Object) {
		pause(o)
		o.SetGeneration(2)
	},
	"PausedNew": func(o controller.Object) {
		*o.StatusConditions(), *o.StatusObservedGeneration() = nil, 0
		pause(o)
		conditions.Set(o.StatusConditions(), conditions.Ready, metav1.ConditionUnknown, "Paused", "")
	},
}

func pause(o controller.Object) {
	conditions.True(o.StatusConditions(), conditions.Paused, "Paused", "")
}

func TestDocumentedStatusIsWhatKstatusComputes(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]string{} // the phases of each kind in the table, and the states of "any"
	for _, cells := range row.FindAllStringSubmatch(string(text), -1) {
		kind := cells[1]
		phase := strings.Trim(strings.Fields(cells[2])[0], ",")
		state := cells[3]
		ready := cells[4]
		want := cells[5]
		of := []string{kind}
		if kind == "any" {
			found[kind], phase, of = append(found[kind], state), "Ready", []string{
				"At", "App", "Database", "ExternalDatabase", "Platform",
			}
		} else {
			found[kind] = append(found[kind], phase)
		}
		for _, name := range of {
			object := kinds[name].object(phase)
			conclude(t, object, state)
			if got := readyOf(object); got != ready && ready != "any" {
				t.Errorf("%s %s, state %s: Ready is %s, but the page says %s", name, phase, state, got, ready)
			}
			if got := compute(t, object); got != want {
				t.Errorf("%s %s, state %s: kstatus computes %s, but the page says %s", name, phase, state, got, want)
			}
		}
	}
	for name, kind := range kinds {
		for _, phase := range kind.phases {
			if !slices.Contains(found[name], phase) {
				t.Errorf("%s has no row for phase %s of %s", page, phase, name)
			}
		}
	}
	for state := range special {
		if !slices.Contains(found["any"], state) {
			t.Errorf("%s has no row for the state %s of any kind", page, state)
		}
	}
}

// conclude sets the conditions of a state on an object.
func conclude(t *testing.T, object controller.Object, state string) {
	t.Helper()
	object.SetGeneration(1)
	*object.StatusObservedGeneration() = 1
	summary, known := summaries[state]
	change := special[state]
	if !known && change == nil {
		t.Fatalf("unknown state %q", state)
	}
	if change != nil {
		summary = controller.StateReady
	}
	controller.Summary{State: summary, Note: controller.Note{Reason: "Reason", Message: "Message."}}.SetOn(object)
	if change != nil {
		change(object)
	}
}

// readyOf returns the status of the condition Ready.
func readyOf(object controller.Object) string {
	if ready := conditions.Find(*object.StatusConditions(), conditions.Ready); ready != nil {
		return string(ready.Status)
	}
	return "absent"
}

// compute returns the status that kstatus computes for an object.
func compute(t *testing.T, object controller.Object) string {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		t.Fatal(err)
	}
	result, err := status.Compute(&unstructured.Unstructured{Object: content})
	if err != nil {
		t.Fatal(err)
	}
	return result.Status.String()
}
