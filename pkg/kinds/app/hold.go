package app

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"windlass.dev/windlass/pkg/controller"
)

// hold says why the Pod template of an App must not change now, and what the status reports until it may change. A hold
// is also an error: prepare returns it, so that no child is applied.
type hold struct {
	// err is the error of the reconcile. If it is nil, the status shows summary.
	err     error
	summary controller.Summary
	// requeueAfter is positive if time alone can change the summary.
	requeueAfter time.Duration
	// first is true if the status must be stored before anything else. This reconcile then does not report errors of
	// children: the next reconcile, which follows at once, does.
	first bool
	// template is the Pod template that the Deployment keeps. prepare sets it while beforeRollout runs. If template is
	// nil, the whole Deployment stays as it is.
	template *corev1.PodTemplateSpec
}

// Error implements error. No status shows this text: it shows err or summary.
func (h *hold) Error() string { return "the Pod template must not change now" }

// waitFor returns a hold whose status shows note. It lasts until an event changes the result.
func waitFor(note controller.Note) *hold {
	return &hold{summary: controller.Summary{State: controller.StateProgressing, Note: note}}
}

// storeFirst returns a hold until the status is stored. The next reconcile follows at once.
func storeFirst(message string) *hold {
	return &hold{err: controller.WaitFor(reasonRun, message, controller.Soon), first: true}
}
