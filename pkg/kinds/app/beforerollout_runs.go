package app

import (
	"cmp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
	"windlass.dev/windlass/pkg/kinds/internal/runonce"
)

// wantedRun returns the run that has to succeed before the Pod template of the App is rolled out, or nil. A template
// needs no run if the operator has applied it, if it was available, or if a run for it has succeeded. A rollback
// therefore runs no command, unless the content of a Secret or ConfigMap has changed since.
func (p *scope) wantedRun() *runID {
	if p.app.Spec.BeforeRollout == nil {
		return nil
	}
	digest := p.observed.template.Annotations[TemplateDigestAnnotation]
	if mayRollOut(p.app, digest) || p.observed.deployment != nil && lastDigest(p.observed.deployment) == digest {
		return nil
	}
	return &runID{template: digest, command: commandDigest(p.app)}
}

// mayRollOut reports whether a template with the given digest may be rolled out without a run: according to the status,
// it was rolled out before, or a run for it has succeeded.
func mayRollOut(app *v1alpha1.App, digest string) bool {
	status := &app.Status
	has := func(stored string) bool { // also as the beginning of the value of AdoptedAnnotation
		return stored == digest || strings.HasPrefix(stored, digest+".")
	}
	available := status.LastAvailable != nil && has(status.LastAvailable.TemplateDigest)
	succeeded := slices.ContainsFunc(status.BeforeRolloutRuns, func(r v1alpha1.BeforeRolloutRun) bool {
		return r.TemplateDigest == digest && r.Phase == v1alpha1.BeforeRolloutSucceeded
	})
	return available || succeeded || has(status.TemplateDigest)
}

// templateToKeep returns the Pod template that the operator applied last. It returns nil if the record does not have
// this template, or if mayRollOut is false for the template: users can edit the record, and the status may be lost.
func templateToKeep(app *v1alpha1.App, live *appsv1.Deployment) *corev1.PodTemplateSpec {
	last, known := pods.LastTemplate(live)
	if !known {
		return nil
	}
	isKept := strings.HasSuffix(app.Status.TemplateDigest, markOfKept(last))
	if !isKept && !mayRollOut(app, digestOfTemplate(last)) {
		return nil
	}
	return last
}

// lastDigest returns the digest of the template that the operator desired last for a live Deployment, or "".
func lastDigest(live *appsv1.Deployment) string {
	last, known := pods.LastTemplate(live)
	if !known {
		return live.Spec.Template.Annotations[TemplateDigestAnnotation]
	}
	return digestOfTemplate(last)
}

// runIDOf returns the runID of a run in the status.
func runIDOf(r *v1alpha1.BeforeRolloutRun) runID {
	return runID{template: r.TemplateDigest, command: r.CommandDigest}
}

// activeRun returns the newest run in the status if it has not ended, or nil.
func activeRun(app *v1alpha1.App) *v1alpha1.BeforeRolloutRun {
	runs := app.Status.BeforeRolloutRuns
	if len(runs) == 0 || runs[0].Phase != v1alpha1.BeforeRolloutRunning {
		return nil
	}
	return &runs[0]
}

// runWithID returns the run with the given runID in the status, or nil.
func runWithID(app *v1alpha1.App, id runID) *v1alpha1.BeforeRolloutRun {
	return firstRun(app, func(r *v1alpha1.BeforeRolloutRun) bool { return runIDOf(r) == id })
}

// runOfPod returns the run of a Pod in the status, or nil.
func runOfPod(app *v1alpha1.App, state runonce.State) *v1alpha1.BeforeRolloutRun {
	return firstRun(app, func(r *v1alpha1.BeforeRolloutRun) bool { return state.Pod != nil && r.PodUID == state.Pod.UID })
}

func firstRun(app *v1alpha1.App, matches func(*v1alpha1.BeforeRolloutRun) bool) *v1alpha1.BeforeRolloutRun {
	for i := range app.Status.BeforeRolloutRuns {
		if r := &app.Status.BeforeRolloutRuns[i]; matches(r) {
			return r
		}
	}
	return nil
}

// maxRuns limits status.beforeRolloutRuns. maxImage limits the field image of a run, in bytes.
const (
	maxRuns  = 10
	maxImage = 256
)

// addRun adds the run of a Pod to the status. Users can edit the annotations of a Pod, so addRun limits their size.
func addRun(app *v1alpha1.App, pod *corev1.Pod) {
	id, started := runIDIn(pod), pod.CreationTimestamp
	added := v1alpha1.BeforeRolloutRun{
		TemplateDigest: atMost(id.template, digestLength), CommandDigest: atMost(id.command, digestLength),
		PodUID: pod.UID, Phase: v1alpha1.BeforeRolloutRunning, StartTime: &started,
	}
	if app.Spec.BeforeRollout != nil {
		added.Image = atMost(runImage(app), maxImage)
	}
	runs := slices.Insert(app.Status.BeforeRolloutRuns, 0, added)
	app.Status.BeforeRolloutRuns = runs[:min(len(runs), maxRuns)]
}

// atMost returns the beginning of a text, of at most size bytes.
func atMost(text string, size int) string {
	return strings.ToValidUTF8(text[:min(len(text), size)], "")
}

// setEnd sets in the status how the newest run has ended. It keeps a message that the run already has, which says why
// the operator has deleted the Pod.
func setEnd(app *v1alpha1.App, end *runonce.Ending) {
	r := &app.Status.BeforeRolloutRuns[0]
	r.Phase, r.ExitCode, r.Message = v1alpha1.BeforeRolloutFailed, end.ExitCode, cmp.Or(r.Message, end.Message)
	r.CompletionTime = ptr.To(metav1.NewTime(end.Time.UTC().Truncate(time.Second)))
	if end.Succeeded {
		r.Phase, r.Message = v1alpha1.BeforeRolloutSucceeded, ""
	}
}

// finishRun sets in the status how the newest run has ended, and returns a hold. If this run was the wanted one and has
// failed, the hold reports the failure. In all other cases, the next reconcile continues with the stored status.
func finishRun(p *scope, wanted *runID, end *runonce.Ending) *hold {
	setEnd(p.app, end)
	if !end.Succeeded && wanted != nil && *wanted == runIDOf(&p.app.Status.BeforeRolloutRuns[0]) {
		// The next reconcile, which has the stored status, releases the Pod.
		return &hold{summary: failureSummary(p, *wanted), requeueAfter: controller.Soon}
	}
	return holdUntilStored(messageRunEnded.With())
}

// runSummary returns the summary of an App while the Pod of its newest run exists. problem says why the command does
// not start, or is nil. outdated reports whether the run is not the wanted one.
func runSummary(app *v1alpha1.App, pod *corev1.Pod, problem *pods.Problem, outdated bool) controller.Summary {
	if problem != nil {
		message := messageRunNotStarting.With(pod.Name, problem.Message, pod.Namespace)
		note := controller.Note{Reason: problem.Reason, Message: problem.WithWords(message, app.Status.Conditions)}
		return controller.Summary{State: controller.StateDegraded, Note: note}
	}
	note := messageRun.Note(pod.Name, pod.Namespace)
	if outdated {
		note = messageOutdatedRun.Note(pod.Name, pod.Namespace)
	}
	return controller.Summary{State: controller.StateProgressing, Note: note}
}

// failureSummary returns the summary of an App whose wanted run has failed. The message of a run may end with LogWords
// and the last line of the log. The summary ends with them, too.
func failureSummary(p *scope, wanted runID) controller.Summary {
	cause, log, logged := strings.Cut(runWithID(p.app, wanted).Message, " "+pods.LogWords)
	previous := ""
	if p.observed.deployment != nil {
		previous = messagePreviousStay.With()
	}
	note := messageRunFailed.Note(cause, previous, p.app.Namespace, runPodName(p.app))
	if logged {
		note.Message += " " + pods.LogWords + log
	}
	return controller.Summary{State: controller.StateStalled, Note: note}
}
