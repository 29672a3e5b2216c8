package app

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"windlass.dev/windlass/pkg/controller"
)

// hold says why the Pod template of an App must not change now, and what the status says meanwhile. A hold is an error
// too: prepare returns it if no child must be applied.
type hold struct {
	// err is the error of the reconcile. If it is nil, the status shows summary.
	err     error
	summary controller.Summary
	// requeueAfter is positive if time alone can change the summary.
	requeueAfter time.Duration
	// first is true if the status must be stored before anything else happens. The next reconcile, which follows at once,
	// reports the errors of children.
	first bool
	// template is the Pod template that the Deployment keeps, which prepare sets while beforeRollout runs. If it is nil,
	// the whole Deployment stays as it is.
	template *corev1.PodTemplateSpec
}

// Error implements error. Users see err or summary.
func (h *hold) Error() string { return "the Pod template must not change now" }

// waitFor holds the template until something changes.
func waitFor(note controller.Note) *hold {
	return &hold{summary: controller.Summary{State: controller.StateProgressing, Note: note}}
}

// storeFirst holds the template until the status is stored.
func storeFirst(message string) *hold {
	return &hold{err: controller.WaitFor(reasonRun, message, controller.Soon), first: true}
}
