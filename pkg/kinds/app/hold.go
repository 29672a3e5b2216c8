package app

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"windlass.dev/windlass/pkg/controller"
)

// hold says why the Pod template of an App must not change now, and what the status reports until it may change. A hold
// is also an error: if the App has no Deployment, prepare returns the hold, so that no child is applied.
//
//	who creates it  why                                             which fields       what the status reports
//	prepare         the Pods lack an object                         err                err
//	proceed         a request failed, or the Pod's name is taken    err                err
//	proceed         the command runs or has failed                  summary            summary
//	proceed         a run was added to the status, or ended         err, untilStored   err, and no error of a child
//
// While beforeRollout holds the template, prepare adds the field template: then the Deployment changes except for its
// template. Without template, for example while an object is missing, the Deployment does not change at all. The other
// children, such as the ConfigMap with new files, are applied.
type hold struct {
	// err is the error of the reconcile. If it is nil, the status shows summary.
	err     error
	summary controller.Summary
	// requeueAfter is positive if time alone can change the summary.
	requeueAfter time.Duration
	// untilStored is true if the status must be stored before anything else. The status then omits errors of children. The
	// next reconcile, which follows at once, reports these errors.
	untilStored bool
	// template is the Pod template that the Deployment keeps: see templateToKeep. If template is nil, the whole
	// Deployment stays as it is.
	template *corev1.PodTemplateSpec
}

// Error implements error. The status shows err or summary, and never this text.
func (h *hold) Error() string { return "the Pod template must not change now" }

// holdWith returns a hold without an error. The status shows note.
func holdWith(note controller.Note) *hold {
	return &hold{summary: controller.Summary{State: controller.StateProgressing, Note: note}}
}

// holdUntilStored returns a hold until the status is stored. The next reconcile follows at once.
func holdUntilStored(message string) *hold {
	return &hold{err: controller.WaitFor(reasonRun, message, controller.Soon), untilStored: true}
}
