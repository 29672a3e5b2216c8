package platform

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/conditions"
)

// nextOfExisting decides what to do with a Managed component whose child exists. A task that has to run again is
// deleted after its dependencies are Ready, and the components that depend on the task stay as they are until its new
// run has succeeded. Other children are kept. The decision does not depend on which write the previous reconcile sent
// last: a task that is missing, runs or has failed is unfinished.
func (p *plan) nextOfExisting(c *component) step {
	tasks := p.unfinished(c)
	switch {
	case c.going && c.ours && c.changed:
		return step{verb: await}
	case c.going || !c.ours || !c.changed && len(tasks) == 0:
		return step{verb: keep}
	case !c.bound:
		return step{verb: reclaim}
	case !c.changed:
		return step{stay, tasks}
	case c.running:
		return step{verb: finish}
	}
	next := p.nextOfMissing(c, rerun)
	if next.verb == rerun && !c.noted {
		return step{verb: note}
	}
	return next
}

// unfinished returns the names of the Managed tasks that a component depends on, directly or through other
// components, and whose command has not succeeded with the current spec.
func (p *plan) unfinished(c *component) (names []string) {
	if !slices.ContainsFunc(p.components, isUnfinished) {
		return nil
	}
	seen := map[string]bool{c.name: true}
	var visit func(c *component)
	visit = func(c *component) {
		for _, name := range c.needs {
			g := p.listed[name]
			if g == nil || seen[name] {
				continue
			}
			seen[name] = true
			if isUnfinished(g) {
				names = append(names, name)
			}
			visit(g)
		}
	}
	visit(c)
	return names
}

func isUnfinished(c *component) bool {
	return c.task && c.listed && c.state == v1alpha1.Managed && (!c.ready || !c.ours)
}

// specAnnotation on the child of a task has a digest of the spec for which the operator created the child. With this
// digest, the task does not run again and again if another client changes the spec of the child, for example a mutating
// webhook.
const specAnnotation = "windlass.dev/task-spec"

// desiredTask returns the child of a task.
func desiredTask(meta metav1.ObjectMeta, c *v1alpha1.PlatformComponent) *cnatv1.At {
	at := &cnatv1.At{ObjectMeta: meta, Spec: *c.At}
	metav1.SetMetaDataAnnotation(&at.ObjectMeta, specAnnotation, digestOf(c.At))
	return at
}

// digestOf returns a digest of the fields that make a task run again.
func digestOf(spec *cnatv1.AtSpec) string {
	text, _ := json.Marshal(fixedFields(spec)) // a spec can always be encoded
	return fmt.Sprintf("%x", sha256.Sum256(text))[:32]
}

// hasChanged reports whether the command of a task has started, and the desired spec differs from the spec of the child
// in an immutable field. It returns false for a child that was created for the desired spec, even if another client has
// changed the spec of the child, and for a child that the cache cannot hold as it is stored.
func hasChanged(child controller.Object, c *v1alpha1.PlatformComponent) bool {
	at, ok := child.(*cnatv1.At)
	if !ok || c.At == nil || controller.UnreadableIn(child) != nil || at.Annotations[specAnnotation] == digestOf(c.At) {
		return false
	}
	return hasStarted(at) && !sameTask(&at.Spec, c.At)
}

func hasStarted(at *cnatv1.At) bool {
	return at.Status.Phase == cnatv1.AtRunning || at.Status.Phase == cnatv1.AtDone
}

func sameTask(a, b *cnatv1.AtSpec) bool {
	return equality.Semantic.DeepEqual(fixedFields(a), fixedFields(b))
}

// fixedFields returns a spec without the fields that can be changed after the command has started. The validation rules
// of the type At list the same fields, and compare the others in the same way.
func fixedFields(spec *cnatv1.AtSpec) *cnatv1.AtSpec {
	fixed := spec.DeepCopy()
	fixed.TTLSecondsAfterFinished, fixed.BackoffLimit = nil, nil
	fixed.Restricted, fixed.Suspend = ptr.To(ptr.Deref(fixed.Restricted, false)), ptr.To(ptr.Deref(fixed.Suspend, false))
	fixed.Resources.Claims = nil
	return fixed
}

// keepStarted copies the immutable fields of a task that has started, and its specAnnotation, from the observed child
// to the desired child. It does not change children of other kinds.
func keepStarted(desired, stored controller.Object) {
	want, isTask := desired.(*cnatv1.At)
	live, wasTask := stored.(*cnatv1.At)
	if !isTask || !wasTask || !hasStarted(live) {
		return
	}
	if !sameTask(&live.Spec, &want.Spec) {
		want.Annotations[specAnnotation] = live.Annotations[specAnnotation]
	}
	backoffLimit, ttl := want.Spec.BackoffLimit, want.Spec.TTLSecondsAfterFinished
	want.Spec = *live.Spec.DeepCopy()
	want.Spec.TTLSecondsAfterFinished = ttl
	if live.Status.Phase == cnatv1.AtRunning {
		want.Spec.BackoffLimit = backoffLimit
	}
}

// maxRuns is how many runs of a task the status lists. maxImage limits the image of a run, in bytes, so that
// the runs of all components fit into the status.
const (
	maxRuns  = 3
	maxImage = 256
)

// isNoted reports whether runs has the run of an At.
func isNoted(runs []v1alpha1.PlatformTaskRun, at controller.Object) bool {
	return slices.ContainsFunc(runs, func(run v1alpha1.PlatformTaskRun) bool { return run.UID == at.GetUID() })
}

// runsOf returns the runs of a component, newest first. previous is the previous status of the component. A run is
// added when the child becomes Done, or is about to be replaced.
func runsOf(c *component, previous v1alpha1.PlatformComponentStatus) []v1alpha1.PlatformTaskRun {
	at, ok := c.child.(*cnatv1.At)
	if !ok || !c.ours || c.state != v1alpha1.Managed || at.Status.Phase != cnatv1.AtDone || isNoted(previous.Runs, at) {
		return previous.Runs
	}
	runs := append([]v1alpha1.PlatformTaskRun{runOf(at)}, previous.Runs...)
	return runs[:min(len(runs), maxRuns)]
}

// runOf returns the run of an At that is Done.
func runOf(at *cnatv1.At) v1alpha1.PlatformTaskRun {
	s := &at.Status
	run := v1alpha1.PlatformTaskRun{
		UID: at.UID, Image: at.Spec.Image, StartTime: s.StartTime, CompletionTime: s.CompletionTime, ExitCode: s.ExitCode,
		Succeeded: conditions.IsTrue(s.Conditions, cnatv1.AtComplete),
	}
	for _, kind := range []string{cnatv1.AtComplete, cnatv1.AtFailed} {
		if found := conditions.Find(s.Conditions, kind); found != nil && found.Status == "True" {
			run.Reason = found.Reason
		}
	}
	if len(run.Image) > maxImage {
		run.Image = strings.ToValidUTF8(run.Image[:maxImage], "")
	}
	return run
}
