package controller_test

import (
	"context"
	"errors"
	"testing"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

func TestSummarySetsConditions(t *testing.T) {
	note, other := controller.Note{Reason: "Note", Message: "a"}, &controller.Note{Reason: "Other", Message: "b"}
	broken := controller.Stalled(controller.WithReason("Broken", errors.New("c")), 0)
	for name, c := range map[string]struct {
		summary controller.Summary
		err     error
		want    []string
	}{
		"a Progressing object": {
			controller.Summary{State: controller.StateProgressing, Note: note}, nil, []string{
				"Degraded=False AsExpected", "Progressing=True Note: a", "Ready=False Note: a",
			},
		},
		"a Ready object": {
			controller.Summary{State: controller.StateReady, Note: note}, nil, []string{
				"Degraded=False AsExpected", "Progressing=False Note: a", "Ready=True Note: a",
			},
		},
		"a Ready object with Progress": {
			controller.Summary{State: controller.StateReady, Note: note, Progress: other}, nil, []string{
				"Degraded=False AsExpected", "Progressing=True Other: b", "Ready=True Note: a",
			},
		},
		"an Idle object": {
			controller.Summary{State: controller.StateIdle, Note: note}, nil, []string{
				"Degraded=False AsExpected", "Progressing=False Note: a", "Ready=False Note: a",
			},
		},
		"a Degraded object": {
			controller.Summary{State: controller.StateDegraded, Note: note}, nil, []string{
				"Degraded=True Note: a", "Progressing=True Note: a", "Ready=False Note: a",
			},
		},
		"a Degraded object with a Problem": {
			controller.Summary{
				State: controller.StateDegraded, Note: note, Problem: other,
			}, nil, []string{"Degraded=True Other: b", "Progressing=True Note: a", "Ready=False Note: a"},
		},
		"a Stalled object": {
			controller.Summary{State: controller.StateStalled, Note: note}, nil, []string{
				"Degraded=True Note: a", "Progressing=False Note: a", "Ready=False Note: a", "Stalled=True Note: a",
			},
		},
		"a Stalled object with a Problem": {
			controller.Summary{State: controller.StateStalled, Note: note, Problem: other}, nil, []string{
				"Degraded=True Other: b", "Progressing=False Other: b", "Ready=False Note: a", "Stalled=True Other: b",
			},
		},
		"a Stalled object whose reconcile fails": {
			controller.Summary{State: controller.StateReady, Note: note}, broken, []string{
				"Degraded=True Broken: c", "Progressing=False Broken: c", "Ready=False Broken: c", "Stalled=True Broken: c",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, &painter{reconcile: func(_ context.Context, toy *Toy) (controller.Result, error) {
				c.summary.SetOn(toy)
				return controller.Result{}, c.err
			}})
			_, _ = b.pass()
			controllertest.Equal(t, "conditions", c.want, controllertest.Conditions(b.get(theToy)))
		})
	}
}
