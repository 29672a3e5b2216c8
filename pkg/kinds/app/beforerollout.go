package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/kinds"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

// beforeRollout is the Child that runs spec.beforeRollout in a Pod. It sets p.held until the command has succeeded.
//
// While the status has a run, its command runs at most once, whenever the operator dies. The Pod is created with a
// scheduling gate, so that it does not run yet. Then its UID is stored in the status, and only then is the gate removed. A
// Pod that the status does not name has therefore never run, and a missing Pod that the status names may have run. All
// Pods of an App have the same name, so that the API server rejects a second Pod. A Pod has pods.TrackingFinalizer until
// the status says how its command ended.
type beforeRollout struct {
	client   coreclient.CoreV1Interface
	informer cache.SharedIndexInformer
	configs  children.Cache[*corev1.ConfigMap]
	tracker  *controller.Tracker // set by Bind
	commands *pods.Commands
	clock    clock.PassiveClock
	// refusals remembers the rejected creations of Pods, each with its run.
	refusals *controller.Refusals[run]
}

func newBeforeRollout(c kinds.Cluster, r controller.Runtime, cached *podCache) *beforeRollout {
	commands := &pods.Commands{
		Kind: "App", Container: runContainer, Client: c.Kube.CoreV1(),
		Cache: children.CacheOf[*corev1.Pod](cached.informer.GetStore()),
		Owner: func(ctx context.Context, key controller.Key) (metav1.Object, error) {
			return c.Windlass.WindlassV1alpha1().Apps(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
		},
	}
	return &beforeRollout{
		commands: commands, client: c.Kube.CoreV1(), informer: cached.informer,
		configs: children.CacheOf[*corev1.ConfigMap](c.ConfigMaps().Informer.GetStore()),
		clock:   r.Clock, refusals: controller.NewRefusals[run](r.Clock),
	}
}

// Informer implements children.Child.
func (b *beforeRollout) Informer() cache.SharedIndexInformer { return b.informer }

// Bind implements children.Child.
func (b *beforeRollout) Bind(tracker *controller.Tracker) {
	b.tracker, b.commands.Tracker = tracker, tracker
}

// Last implements children.Child.
func (b *beforeRollout) Last(*scope) bool { return false }

// Apply implements children.Child. It takes at most one step. p.held says what to report. If the
// template of an App without a Deployment is held, Apply returns errHeld, so that no other child is applied.
func (b *beforeRollout) Apply(ctx context.Context, p *scope) error {
	if p.waiting != nil || p.before != nil && !p.Owns(p.before) {
		// The Pod lacks an object that it needs, or the Deployment belongs to somebody else.
		return b.settle(ctx, p)
	}
	p.held = b.proceed(ctx, p)
	if p.held != nil && !p.hasDeployment() {
		return errHeld
	}
	return nil
}

// errHeld is the error of Apply for an App without a Deployment. As for an App that lacks a Secret, no child is applied.
var errHeld = errors.New("waiting for beforeRollout")

// held says why the Pod template of an App is not rolled out: an error, or a summary.
type held struct {
	err     error
	summary controller.Summary
	// requeueAfter is positive if time alone can change the summary.
	requeueAfter time.Duration
	// first is true if the status must be stored before anything else happens, even an error of another child.
	first bool
}

// storeFirst holds the template until the status is stored.
func storeFirst(message string) *held {
	return &held{err: controller.StoreFirst(reasonRun, message), first: true}
}

// proceed takes the next step. It returns nil if the template may be rolled out.
func (b *beforeRollout) proceed(ctx context.Context, p *scope) *held {
	pod, err := b.find(ctx, p.app)
	if err != nil {
		return &held{err: err}
	}
	if pod, err = b.releaseEnded(ctx, p.app, pod); err != nil {
		return &held{err: err}
	}
	wanted := p.wantedRun()
	if nextStep(p.app, wanted, pod) == stepCreate && pod == nil {
		if pod, err = b.create(ctx, p, *wanted); err != nil {
			return &held{err: err}
		}
	}
	return b.act(ctx, p, wanted, pod)
}

// act takes the next step of an App whose Pod is pod, or nil.
func (b *beforeRollout) act(ctx context.Context, p *scope, wanted *run, pod *corev1.Pod) *held {
	switch nextStep(p.app, wanted, pod) {
	case stepWatch:
		return b.watch(ctx, p, wanted, pod)
	case stepRecord:
		return b.record(ctx, p, pod)
	case stepRemove:
		pod, err := b.commands.Release(ctx, keyOf(p.app), pod)
		if err == nil {
			err = b.delete(ctx, p.app, pod)
		}
		if err != nil {
			return &held{err: err}
		}
		if wanted == nil {
			return nil // the Pod does not run
		}
		waiting := waitFor(messageRunDeletion.Note(pod.Name))
		if _, err := b.commands.Cache.Get(p.app.Namespace, pod.Name); err != nil {
			waiting.requeueAfter = deletionRecheck // no event of the deletion will come
		}
		return waiting
	case stepFail:
		return &held{summary: failure(p, *wanted)}
	case stepCreate:
		if err := b.commands.ReleaseUnowned(ctx, keyOf(p.app), pod); err != nil {
			return &held{err: err}
		}
		return &held{err: p.Taken("Pod", pod)}
	default:
		return nil
	}
}

// find returns the Pod with the name of the App's Pod, or nil; see pods.Commands.Find.
func (b *beforeRollout) find(ctx context.Context, app *v1alpha1.App) (*corev1.Pod, error) {
	return b.commands.Find(ctx, keyOf(app), runPodName(app))
}

// create creates the Pod, and returns it. The Pod may exist although the cache lacks it, if the cache is outdated or
// another client has removed the label by which the cache selects Pods. create then returns the existing Pod.
func (b *beforeRollout) create(ctx context.Context, p *scope, wanted run) (*corev1.Pod, error) {
	if last, ok := b.refusals.Recent(p.app.UID, "", wanted); ok {
		return nil, b.refused(p.app, last)
	}
	desired := desiredRunPod(p.app, p.inputs, wanted)
	pod, err := b.client.Pods(p.app.Namespace).Create(ctx, desired, metav1.CreateOptions{})
	switch {
	case apierrors.IsAlreadyExists(err):
		pod, err = b.client.Pods(p.app.Namespace).Get(ctx, desired.Name, metav1.GetOptions{})
		return pod, wrapped(err, "reading", "Pod", desired)
	case pods.IsRefusal(err):
		return nil, b.refused(p.app, b.refusals.Note(p.app.UID, "", wanted, err, pods.ShortestRefusal, pods.LongestRefusal))
	case err != nil:
		return nil, wrapped(err, "creating", "Pod", desired)
	}
	b.tracker.Wrote(keyOf(p.app), "Pod", b.commands.Cache, pod.ResourceVersion)
	return pod, nil
}

// refused returns the error of an App whose Pod the API server rejected.
func (b *beforeRollout) refused(app *v1alpha1.App, last controller.Refusal) error {
	return controller.Warn(pods.Refused(runPodName(app), last.Err, "", last.Until.Sub(b.clock.Now())))
}

// record creates the ConfigMap of a Pod that does not run yet, and adds the Pod to the status. The next reconcile, which
// has the stored status, lets the Pod run.
func (b *beforeRollout) record(ctx context.Context, p *scope, pod *corev1.Pod) *held {
	if isGated(pod) && hasConfig(p.app) {
		if err := b.ensureConfig(ctx, p, pod); err != nil {
			return &held{err: err}
		}
	}
	addRun(p.app, pod)
	return storeFirst(messageRun.With(pod.Name, pod.Namespace))
}

// How often an App is reconciled that waits for the garbage collector, or for the deletion of a Pod that the cache lacks.
const (
	garbageRecheck  = time.Second
	deletionRecheck = 5 * time.Second
)

// watch updates the newest run in the status from its Pod. pod is the cached Pod, or nil.
func (b *beforeRollout) watch(ctx context.Context, p *scope, wanted *run, pod *corev1.Pod) *held {
	last := &p.app.Status.BeforeRolloutRuns[0]
	pod, unwatched, err := b.live(ctx, p.app, last.PodUID, pod)
	if err != nil {
		return &held{err: err}
	}
	if pod == nil {
		return ended(p, wanted, lostPod(p.app, b.clock.Now()))
	}
	// A Pod is released from the cache, which selects Pods by a label.
	if pod, err = b.commands.Relabel(ctx, keyOf(p.app), pod, runLabels(p.app)); err != nil {
		return &held{err: err}
	}
	end, lostAfter := b.endingOf(pod)
	if end != nil {
		return ended(p, wanted, end)
	}
	if pod, err = b.commands.Track(ctx, keyOf(p.app), pod); err != nil {
		return &held{err: err}
	}
	former := wanted == nil || *wanted != runOf(last)
	if isGated(pod) && former { // the next reconcile deletes the Pod, unless the spec wants it again
		p.app.Status.BeforeRolloutRuns = p.app.Status.BeforeRolloutRuns[1:]
		return storeFirst(messageRunDeletion.With(pod.Name))
	}
	if isGated(pod) && pod.DeletionTimestamp == nil {
		if err := b.openGate(ctx, p.app, pod); err != nil {
			return &held{err: err}
		}
		return waitFor(messageRun.Note(pod.Name, pod.Namespace))
	}
	problem, requeueAfter := pods.NotStarting(pod, runContainer, b.clock.Now())
	if pod.Status.Phase == corev1.PodPending && pod.Annotations[configAnnotation] == "true" {
		missing, err := b.keepConfig(ctx, p, pod, former)
		if err != nil {
			return &held{err: err}
		}
		problem = cmp.Or(problem, missing)
		unwatched = true // no event of its ConfigMap will come
	}
	if former && problem != nil {
		last.Message = messageRunReplaced.With(problem.Message)
		if err := b.delete(ctx, p.app, pod); err != nil {
			return &held{err: err}
		}
	}
	requeueAfter = max(requeueAfter, lostAfter) // at most one of them is positive
	if unwatched && (requeueAfter == 0 || requeueAfter > lookAgain) {
		requeueAfter = lookAgain
	}
	return &held{summary: runSummary(p.app, pod, problem, former), requeueAfter: requeueAfter}
}

// lookAgain is how often an App is reconciled while changes of its Pod or of the Pod's ConfigMap cause no event.
const lookAgain = 30 * time.Second

// live returns the Pod with the given UID, or nil if it does not exist. It reads the Pod from the API server if the cached
// Pod is missing or another one: the cache may be outdated. unwatched reports whether the Pod exists, but its events do
// not wake the App: the cache lacks the Pod, or somebody has removed its owner reference.
func (b *beforeRollout) live(ctx context.Context, app *v1alpha1.App, uid types.UID, cached *corev1.Pod) (pod *corev1.Pod, unwatched bool, err error) {
	if cached != nil && cached.UID == uid {
		return cached, !metav1.IsControlledBy(cached, app) || b.commands.IsHidden(keyOf(app)), nil
	}
	pod, err = b.client.Pods(app.Namespace).Get(ctx, runPodName(app), metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && pod.UID != uid {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("reading Pod %s/%s: %w", app.Namespace, runPodName(app), err)
	}
	return pod, true, nil
}
