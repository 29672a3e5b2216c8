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
// therefore runs no command.
func (p *scope) wantedRun() *run {
	if p.app.Spec.BeforeRollout == nil {
		return nil
	}
	digest := digestOfTemplate(&desiredDeployment(p.app, p.observed.contents).Spec.Template)
	if isReleased(p.app, digest) || p.observed.deployment != nil && lastDigest(p.observed.deployment) == digest {
		return nil
	}
	return &run{template: digest, command: commandDigest(p.app)}
}

// isReleased reports whether the status says that a template with the given digest has been rolled out, or that it may
// be.
func isReleased(app *v1alpha1.App, digest string) bool {
	status := &app.Status
	available := status.LastAvailable != nil && status.LastAvailable.TemplateDigest == digest
	succeeded := slices.ContainsFunc(status.BeforeRolloutRuns, func(r v1alpha1.BeforeRolloutRun) bool {
		return r.TemplateDigest == digest && r.Phase == v1alpha1.BeforeRolloutSucceeded
	})
	return available || succeeded || status.TemplateDigest == digest
}

// releasedTemplate returns the Pod template that the operator applied last, or nil if it is not known to be released.
func releasedTemplate(app *v1alpha1.App, live *appsv1.Deployment) *corev1.PodTemplateSpec {
	last, known := pods.LastTemplate(live)
	if !known || !isReleased(app, digestOfTemplate(last)) {
		return nil
	}
	return last
}

// lastDigest returns the digest of the template that the operator desired last for a live Deployment, or "".
func lastDigest(live *appsv1.Deployment) string {
	last, known := pods.LastTemplate(live)
	if !known {
		return live.Spec.Template.Annotations[templateAnnotation]
	}
	return digestOfTemplate(last)
}

// runOf returns the identity of a run in the status.
func runOf(r *v1alpha1.BeforeRolloutRun) run {
	return run{template: r.TemplateDigest, command: r.CommandDigest}
}

// runningOf returns the newest run if it has not ended, or nil.
func runningOf(app *v1alpha1.App) *v1alpha1.BeforeRolloutRun {
	runs := app.Status.BeforeRolloutRuns
	if len(runs) == 0 || runs[0].Phase != v1alpha1.BeforeRolloutRunning {
		return nil
	}
	return &runs[0]
}

// findRun returns a run in the status, or nil.
func findRun(app *v1alpha1.App, wanted run) *v1alpha1.BeforeRolloutRun {
	return firstRun(app, func(r *v1alpha1.BeforeRolloutRun) bool { return runOf(r) == wanted })
}

// recordOf returns the run of a Pod in the status, or nil.
func recordOf(app *v1alpha1.App, pod runonce.State) *v1alpha1.BeforeRolloutRun {
	return firstRun(app, func(r *v1alpha1.BeforeRolloutRun) bool { return pod.Pod != nil && r.PodUID == pod.Pod.UID })
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

// addRun adds the run of a Pod to the status.
func addRun(app *v1alpha1.App, pod *corev1.Pod) {
	of, started := runIn(pod), pod.CreationTimestamp
	added := v1alpha1.BeforeRolloutRun{
		TemplateDigest: atMost(of.template, digestLength), CommandDigest: atMost(of.command, digestLength),
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

// recordEnd records in the status how the newest run has ended. It keeps a message that the run already has, which says
// why the operator has deleted the Pod.
func recordEnd(app *v1alpha1.App, how *runonce.Ending) {
	r := &app.Status.BeforeRolloutRuns[0]
	r.Phase, r.ExitCode, r.Message = v1alpha1.BeforeRolloutFailed, how.ExitCode, cmp.Or(r.Message, how.Message)
	r.CompletionTime = ptr.To(metav1.NewTime(how.Time.UTC().Truncate(time.Second)))
	if how.Succeeded {
		r.Phase, r.Message = v1alpha1.BeforeRolloutSucceeded, ""
	}
}

// ended records how the newest run has ended, and returns a hold. If this run was the wanted one and has failed, the
// hold reports the failure. In all other cases, the next reconcile continues with the stored status.
func ended(p *scope, wanted *run, how *runonce.Ending) *hold {
	recordEnd(p.app, how)
	if !how.Succeeded && wanted != nil && *wanted == runOf(&p.app.Status.BeforeRolloutRuns[0]) {
		// The next reconcile, which has the stored status, releases the Pod.
		return &hold{summary: failure(p, *wanted), requeueAfter: controller.Continue().RequeueAfter}
	}
	return storeFirst(messageRunEnded.With())
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
	return waitFor(note).summary
}

// failure returns the summary of an App whose wanted run has failed.
func failure(p *scope, wanted run) controller.Summary {
	cause, log, logged := strings.Cut(findRun(p.app, wanted).Message, " "+pods.LogWords)
	former := ""
	if p.observed.deployment != nil {
		former = messageFormerStay.With()
	}
	note := messageRunFailed.Note(cause, former, p.app.Namespace, runPodName(p.app))
	if logged {
		note.Message += " " + pods.LogWords + log
	}
	return controller.Summary{State: controller.StateStalled, Note: note}
}
