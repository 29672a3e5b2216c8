package app

import (
	"cmp"
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/clock"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
	"windlass.dev/windlass/pkg/kinds/internal/runonce"
)

// beforeRollout runs the command of spec.beforeRollout in a Pod.
//
// As long as the status lists a run, its command runs at most once, even if the operator dies at any time:
//  1. The operator creates the Pod with a scheduling gate, which keeps the Pod from running.
//  2. It stores the UID of the Pod in the status.
//  3. It removes the gate.
//
// A Pod whose UID is not in the status has therefore never run, unless somebody else removed the gate. If a Pod is
// missing and its UID is in the status, its command may have run. All Pods of an App have the same name, so that the
// API server rejects a second Pod. A Pod has pods.TrackingFinalizer until the status says how its command ended.
type beforeRollout struct {
	*runonce.Commands
	configMaps coreclient.ConfigMapsGetter
	configs    children.Cache[*corev1.ConfigMap]
	clock      clock.PassiveClock
}

// Bind implements children.Child. The step calls settle, which acts only if prepare has not called proceed.
func (b *beforeRollout) Bind(tracker *controller.Tracker) children.Step[*scope] {
	b.Tracker = tracker
	return children.Step[*scope]{Name: "beforeRollout", Owned: b.Informer, Apply: b.settle}
}

// proceed takes the next steps, until the status has to be stored. It returns a hold until the command has succeeded,
// and then nil.
func (b *beforeRollout) proceed(ctx context.Context, p *scope) *hold {
	wanted := p.wantedRun()
	pod, err := b.Observe(ctx, p.app)
	if last := runningOf(p.app); err == nil && last != nil && recordOf(p.app, pod) != last {
		pod, err = b.Live(ctx, p.app) // the cache may be outdated
	}
	if err == nil && nextStep(p.app, wanted, pod) == stepCreate {
		pod, err = b.create(ctx, p, *wanted)
	}
	if err == nil {
		pod, err = b.releaseEnded(ctx, p.app, pod)
	}
	if err != nil {
		return &hold{err: err}
	}
	return b.act(ctx, p, wanted, pod)
}

// step is what beforeRollout does next.
type step int

const (
	stepRollOut  step = iota // roll out the template
	stepCreate               // create the Pod of the wanted run
	stepRecord               // add the Pod to the status
	stepWatch                // update the newest run in the status from its Pod
	stepRemove               // delete the Pod, which does not run
	stepFail                 // report that the wanted run has failed
	stepConflict             // report the Pod of somebody else
)

// nextStep returns the next step of an App. wanted is the run that has to succeed before the template is rolled out, or
// nil.
func nextStep(app *v1alpha1.App, wanted *run, observed runonce.State) step {
	pod := observed.Pod
	if !observed.Own {
		pod = nil // no step changes the Pod of somebody else
	}
	switch {
	case runningOf(app) != nil:
		return stepWatch
	case pod != nil && recordOf(app, observed) == nil && !isGated(pod): // somebody else has removed the gate
		return stepRecord
	case pod != nil && isGated(pod) && wanted != nil && runIn(pod) == *wanted &&
		findRun(app, *wanted) == nil && pod.DeletionTimestamp == nil:
		return stepRecord
	case pod != nil && (isGated(pod) || app.Spec.BeforeRollout == nil):
		return stepRemove
	case wanted == nil:
		return stepRollOut
	case findRun(app, *wanted) != nil: // a run that succeeded is not wanted
		return stepFail
	case pod != nil: // the Pod of the previous run, which has ended
		return stepRemove
	case observed.Pod != nil:
		return stepConflict
	}
	return stepCreate
}

// act takes the next step of an App. pod is the state of its Pod, which proceed has created if the step was stepCreate.
func (b *beforeRollout) act(ctx context.Context, p *scope, wanted *run, pod runonce.State) *hold {
	switch nextStep(p.app, wanted, pod) {
	case stepRollOut:
		return nil
	case stepWatch:
		return b.watch(ctx, p, wanted, pod)
	case stepRecord:
		return b.record(ctx, p, pod.Pod)
	case stepRemove:
		if err := b.Remove(ctx, pod); err != nil {
			return &hold{err: err}
		}
		if wanted == nil {
			return nil // the Pod does not run
		}
		waiting := waitFor(messageRunDeletion.Note(pod.Pod.Name))
		if pod.Unwatched {
			waiting.requeueAfter = deletionRecheck // no event of the deletion will come
		}
		return waiting
	case stepFail:
		return &hold{summary: failure(p, *wanted)}
	default: // stepConflict
		return &hold{err: p.Taken("Pod", pod.Pod)}
	}
}

// releaseEnded releases a Pod after the status says how its command ended, a Pod that is deleted before its command has
// run, and a Pod that does not belong to the App. It returns the state of the Pod after that.
func (b *beforeRollout) releaseEnded(ctx context.Context, app *v1alpha1.App, pod runonce.State) (runonce.State, error) {
	of := recordOf(app, pod)
	switch {
	case pod.Pod == nil, of != nil && of.Phase == v1alpha1.BeforeRolloutRunning:
	case of == nil && !pod.Own:
		return pod, b.ReleaseUnowned(ctx, pod)
	case of != nil, isGated(pod.Pod) && pod.Pod.DeletionTimestamp != nil:
		return b.ReleasePod(ctx, pod)
	}
	return pod, nil
}

// settle records how a command ended, or releases its Pod, if prepare has not called proceed: the Pods lack an object,
// or the Deployment belongs to somebody else.
func (b *beforeRollout) settle(ctx context.Context, p *scope) error {
	if p.observed.unmet == nil && !p.observed.foreign {
		return nil
	}
	pod, err := b.Observe(ctx, p.app)
	if err != nil {
		return err
	}
	if last := runningOf(p.app); last != nil && pod.End != nil && recordOf(p.app, pod) == last {
		recordEnd(p.app, pod.End)
		return nil
	}
	_, err = b.releaseEnded(ctx, p.app, pod)
	return err
}

// create creates the Pod, and returns its state.
func (b *beforeRollout) create(ctx context.Context, p *scope, wanted run) (runonce.State, error) {
	pod, err := b.Create(ctx, p.app, wanted, func() (*corev1.Pod, error) {
		return desiredRunPod(p.app, p.observed.contents, wanted), nil
	})
	if last := (*runonce.Rejection)(nil); errors.As(err, &last) {
		err = controller.Warn(pods.Refused(runPodName(p.app), last.Err, "", last.After))
	}
	return pod, err
}

// record creates the ConfigMap of a Pod that does not run yet, and adds the Pod to the status. The next reconcile,
// which has the stored status, lets the Pod run.
func (b *beforeRollout) record(ctx context.Context, p *scope, pod *corev1.Pod) *hold {
	if isGated(pod) && hasConfig(p.app) {
		if err := b.ensureConfig(ctx, p, pod); err != nil {
			return &hold{err: err}
		}
	}
	addRun(p.app, pod)
	return storeFirst(messageRun.With(pod.Name, pod.Namespace))
}

// garbageRecheck is how often an App is reconciled while it waits for the garbage collector. deletionRecheck is how
// often it is reconciled while it waits for the deletion of a Pod that the cache lacks.
const (
	garbageRecheck  = time.Second
	deletionRecheck = 5 * time.Second
)

// watch updates the newest run in the status from its Pod. It opens the gate of the Pod, which the stored status lists.
func (b *beforeRollout) watch(ctx context.Context, p *scope, wanted *run, pod runonce.State) *hold {
	last := runningOf(p.app)
	if recordOf(p.app, pod) != last {
		// The command may have run, so it does not run again.
		return ended(p, wanted, &runonce.Ending{Time: b.clock.Now(), Message: messageRunLost.With(runPodName(p.app))})
	}
	pod, err := b.Relabel(ctx, pod, runLabels(p.app))
	if err != nil {
		return &hold{err: err}
	}
	if pod.End != nil {
		return ended(p, wanted, pod.End)
	}
	if pod, err = b.Track(ctx, pod); err != nil {
		return &hold{err: err}
	}
	outdated := wanted == nil || *wanted != runOf(last)
	if isGated(pod.Pod) && outdated { // the next reconcile deletes the Pod, unless the spec wants it again
		p.app.Status.BeforeRolloutRuns = p.app.Status.BeforeRolloutRuns[1:]
		return storeFirst(messageRunDeletion.With(pod.Pod.Name))
	}
	if isGated(pod.Pod) && pod.Pod.DeletionTimestamp == nil {
		if err := b.OpenGate(ctx, pod, runGate); err != nil {
			return &hold{err: err}
		}
		return waitFor(messageRun.Note(pod.Pod.Name, pod.Pod.Namespace))
	}
	problem := pod.Problem
	if pod.Pod.Status.Phase == corev1.PodPending && pod.Pod.Annotations[configAnnotation] == "true" {
		missing, err := b.keepConfig(ctx, p, pod.Pod, outdated)
		if err != nil {
			return &hold{err: err}
		}
		problem = cmp.Or(problem, missing)
		pod.Unwatched = true // no event of its ConfigMap will come
	}
	if outdated && problem != nil {
		last.Message = messageRunReplaced.With(problem.Message)
		if err := b.Delete(ctx, pod); err != nil {
			return &hold{err: err}
		}
	}
	summary := runSummary(p.app, pod.Pod, problem, outdated)
	return &hold{summary: summary, requeueAfter: pod.Recheck(pod.RequeueAfter)}
}
