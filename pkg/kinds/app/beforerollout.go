package app

import (
	"context"
	"errors"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
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
	commands   *runonce.Commands
	configs    *configMaps
	deployment *children.Declaration[*scope, *appsv1.Deployment] // set by ownedBy
	clock      clock.PassiveClock
}

// deletionRecheck is how often an App is reconciled while it waits for the deletion of a Pod that the cache lacks.
const deletionRecheck = 5 * time.Second

// Bind implements children.Child. The step calls settle, which acts only if prepare has not called proceed.
func (b *beforeRollout) Bind(tracker *controller.Tracker) children.Step[*scope] {
	b.commands.Tracker = tracker
	return children.Step[*scope]{Name: "beforeRollout", Owned: b.commands.Informer, Apply: b.settle}
}

// proceed takes the next steps, until the status has to be stored. It returns a hold until the command has succeeded,
// and then nil.
func (b *beforeRollout) proceed(ctx context.Context, p *scope) *hold {
	wanted := p.wantedRun()
	state, err := b.commands.Observe(ctx, p.app)
	if active := activeRun(p.app); err == nil && active != nil && runOfPod(p.app, state) != active {
		state, err = b.commands.Live(ctx, p.app) // the cache may be outdated
	}
	if err == nil && nextStep(p.app, wanted, state) == stepCreate {
		state, err = b.create(ctx, p, *wanted) // the cache may have lacked another Pod, so act decides again
	}
	if err == nil {
		state, err = b.releaseEnded(ctx, p, state)
	}
	if err != nil {
		return &hold{err: err}
	}
	return b.act(ctx, p, wanted, state)
}

// step is what beforeRollout does next.
type step int

const (
	stepRollOut  step = iota // roll out the template
	stepCreate               // create the Pod of the wanted run
	stepStore                // add the Pod to the status
	stepAdvance              // open the gate of the newest run in the status, follow its Pod, and set how it ended
	stepRemove               // delete the Pod, which does not run
	stepFail                 // report that the wanted run has failed
	stepConflict             // report the Pod of somebody else
)

// nextStep returns the next step of an App. wanted is the run that has to succeed before the template is rolled out, or
// nil.
func nextStep(app *v1alpha1.App, wanted *runID, state runonce.State) step {
	pod, own := state.Pod, state.Own // no step changes the Pod of somebody else
	recorded := runOfPod(app, state) != nil
	gated := own && isGated(pod)
	failed := wanted != nil && runWithID(app, *wanted) != nil // a run that succeeded is not wanted
	usable := gated && pod.DeletionTimestamp == nil && wanted != nil && runIDIn(pod) == *wanted && !failed
	switch {
	case activeRun(app) != nil: // no other step until the run has ended
		return stepAdvance
	case own && !recorded && !gated: // somebody else has removed the gate, and the command may have run
		return stepStore
	case usable: // the Pod was created for the wanted run
		return stepStore
	case gated, own && app.Spec.BeforeRollout == nil: // nothing needs the Pod
		return stepRemove
	case wanted == nil:
		return stepRollOut
	case failed: // the Pod stays, so that a user can read its log
		return stepFail
	case own: // the Pod of the previous run, which has ended
		return stepRemove
	case pod != nil:
		return stepConflict
	}
	return stepCreate
}

// act takes the next step of an App. state is the state of its Pod, which proceed has created if the step was
// stepCreate.
func (b *beforeRollout) act(ctx context.Context, p *scope, wanted *runID, state runonce.State) *hold {
	switch nextStep(p.app, wanted, state) {
	case stepRollOut:
		return nil
	case stepAdvance:
		return b.advance(ctx, p, wanted, state)
	case stepStore:
		return b.storeRun(ctx, p, state.Pod)
	case stepRemove:
		if err := b.commands.Remove(ctx, state); err != nil {
			return &hold{err: err}
		}
		if wanted == nil {
			return nil // the Pod does not run
		}
		waiting := holdWith(messageRunDeletion.Note(state.Pod.Name))
		if state.Unwatched {
			waiting.requeueAfter = deletionRecheck // no event of the deletion will come
		}
		return waiting
	case stepFail:
		return &hold{summary: failureSummary(p, *wanted)}
	case stepConflict:
		return &hold{err: p.Taken("Pod", state.Pod)}
	default: // stepCreate, which proceed has taken
		return &hold{err: controller.ErrDeletionNotObserved}
	}
}

// releaseEnded releases a Pod, so that it can be deleted, after the status says how its command ended. It also releases
// a Pod that is deleted before its command has run, and a Pod that does not belong to the App. It returns the state of
// the Pod after that.
func (b *beforeRollout) releaseEnded(ctx context.Context, p *scope, state runonce.State) (runonce.State, error) {
	run := runOfPod(p.app, state)
	running := run != nil && run.Phase == v1alpha1.BeforeRolloutRunning
	switch {
	case state.Pod == nil, running: // keep
	case run == nil && !state.Own:
		return state, b.commands.ReleaseUnowned(ctx, state)
	case run != nil, isGated(state.Pod) && state.Pod.DeletionTimestamp != nil:
		return b.commands.ReleasePod(ctx, state)
	}
	return state, nil
}

// settle sets in the status how a command ended, or releases its Pod, if prepare has not called proceed: the Pods lack
// an object, or the Deployment belongs to somebody else.
func (b *beforeRollout) settle(ctx context.Context, p *scope) error {
	if p.observed.allowsRun() {
		return nil
	}
	state, err := b.commands.Observe(ctx, p.app)
	if err != nil {
		return err
	}
	if active := activeRun(p.app); active != nil && state.End != nil && runOfPod(p.app, state) == active {
		setEnd(p.app, state.End)
		return nil
	}
	_, err = b.releaseEnded(ctx, p, state)
	return err
}

// create creates the Pod, and returns its state. If the API server would reject the Deployment with the new template,
// create returns the error of that dry run instead: the command must not run for a template that cannot be rolled out.
func (b *beforeRollout) create(ctx context.Context, p *scope, wanted runID) (runonce.State, error) {
	state, err := b.commands.Create(ctx, p.app, wanted, func() (*corev1.Pod, error) {
		err := b.deployment.Try(ctx, p)
		p.applied = applied{} // Try has called Keep of the Deployment
		return desiredRunPod(p.app, p.observed.template, wanted), err
	})
	if last := (*runonce.Rejection)(nil); errors.As(err, &last) {
		err = controller.Warn(pods.Rejected(runPodName(p.app), last.Err, "", last.After))
	}
	return state, err
}

// storeRun adds a Pod to the status. The next reconcile, which has the stored status, lets the Pod run. Without a
// Deployment, no child is applied while the command runs: storeRun creates the ConfigMap.
func (b *beforeRollout) storeRun(ctx context.Context, p *scope, pod *corev1.Pod) *hold {
	if p.observed.deployment == nil {
		if err := b.configs.apply(ctx, p); err != nil {
			return &hold{err: err}
		}
	}
	addRun(p.app, pod)
	return holdUntilStored(messageRun.With(pod.Name, pod.Namespace))
}

// advance updates the newest run in the status from its Pod. It also removes the scheduling gate of a Pod whose UID is
// in the stored status. Before, it restores labels, finalizer and ConfigMap that others have removed. If the run is not
// the wanted one, advance does not remove the gate but forgets the run, and deletes a Pod that does not start.
func (b *beforeRollout) advance(ctx context.Context, p *scope, wanted *runID, state runonce.State) *hold {
	active := activeRun(p.app)
	if runOfPod(p.app, state) != active {
		// The command may have run, so it does not run again.
		return finishRun(p, wanted, &runonce.Ending{Time: b.clock.Now(), Message: messageRunLost.With(runPodName(p.app))})
	}
	state, err := b.commands.Relabel(ctx, state, runLabels(p.app))
	if err != nil {
		return &hold{err: err}
	}
	if state.End != nil {
		return finishRun(p, wanted, state.End)
	}
	if state, err = b.commands.Track(ctx, state); err != nil {
		return &hold{err: err}
	}
	outdated := wanted == nil || *wanted != runIDOf(active)
	if isGated(state.Pod) && outdated { // the next reconcile deletes the Pod, unless the spec wants it again
		p.app.Status.BeforeRolloutRuns = p.app.Status.BeforeRolloutRuns[1:]
		return holdUntilStored(messageRunDeletion.With(state.Pod.Name))
	}
	if !outdated { // the ConfigMap may have been deleted, or rejected
		if err := b.configs.apply(ctx, p); err != nil {
			return &hold{err: err}
		}
	}
	if isGated(state.Pod) && state.Pod.DeletionTimestamp == nil {
		if err := b.commands.OpenGate(ctx, state, runGate); err != nil {
			return &hold{err: err}
		}
		return holdWith(messageRun.Note(state.Pod.Name, state.Pod.Namespace))
	}
	if outdated && state.Problem != nil {
		// setEnd keeps this message when the deletion has ended the run.
		active.Message = messageRunReplaced.With(state.Problem.Message)
		if err := b.commands.Delete(ctx, state); err != nil {
			return &hold{err: err}
		}
	}
	summary := runSummary(p.app, state.Pod, state.Problem, outdated)
	return &hold{summary: summary, requeueAfter: state.Recheck(state.RequeueAfter)}
}
