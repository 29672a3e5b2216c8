package at

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/kindtest"
)

// deletePodOf deletes the Pod as a user does. A Pod with the finalizer stays.
func (f fixture) deletePodOf() {
	f.T.Helper()
	p := f.onlyPod()
	if err := f.Kube.CoreV1().Pods(p.Namespace).Delete(f.T.Context(), p.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &p.UID, ResourceVersion: &p.ResourceVersion},
	}); err != nil {
		f.T.Fatal(err)
	}
}

// podCount returns the number of stored Pods.
func (f fixture) podCount() int {
	f.T.Helper()
	list, err := f.Kube.CoreV1().Pods(metav1.NamespaceAll).List(f.T.Context(), metav1.ListOptions{})
	if err != nil {
		f.T.Fatal(err)
	}
	return len(list.Items)
}

func TestDeletedPodIsNotCreatedAgain(t *testing.T) {
	for name, restart := range map[string]func(fixture){
		"while the operator runs":    func(fixture) {},
		"while the operator is down": func(f fixture) { f.Restart() },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixtureAtNoon(t)
			f.settle()
			f.deletePodOf()
			restart(f)
			f.settle()
			f.settle()
			controllertest.Equal(t, "conditions", failedConditions("BackoffLimitExceeded", lostMessage),
				controllertest.Conditions(f.Object()))
			controllertest.Equal(t, "Pods", 0, f.podCount())
		})
	}
}

func TestCommandThatEndedBeforeItsPodWasDeletedIsNotRepeated(t *testing.T) {
	f := newFixtureAtNoon(t)
	f.settle()
	f.Clock.SetTime(noon.Add(time.Minute))
	f.exit(0)
	f.deletePodOf()
	f.Restart()
	f.settle()
	f.settle()
	controllertest.Equal(t, "conditions", completeConditions(exit0Message), controllertest.Conditions(f.Object()))
	controllertest.Equal(t, "Pods", 0, f.podCount())
}

func TestDeletedPodIsOneAttempt(t *testing.T) {
	f := newFixtureAtNoon(t, withBackoffLimit(1))
	f.settle()
	for attempt := range int32(2) {
		controllertest.Equal(t, "attempt of the Pod", attempt, attemptOf(f.onlyPod()))
		f.deletePodOf()
		f.settle()
		f.settle()
	}
	controllertest.Equal(t, "failed", 2, f.Object().Status.Failed)
	controllertest.Equal(t, "phase", v1.AtDone, f.Object().Status.Phase)
	controllertest.Equal(t, "Pods", 0, f.podCount())
	controllertest.Equal(t, "events", []string{
		scheduledEvent, runningEvent, "Warning PodDeleted default/example: " + lostMessage + " " + retryingMessage,
		retryingEvent,
		"Warning BackoffLimitExceeded default/example: " + lostMessage,
	}, f.Events.Events())
}

func TestReleaseOfPodThatNoAtNeeds(t *testing.T) {
	const readError = "reading At default/example before its Pod is released: no response"
	lacking := func(f fixture) { // the cache lacks the At
		if err := f.Kinds.Cnat().V1().Ats().Informer().GetStore().Delete(example()); err != nil {
			f.T.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		at            *v1.At
		pod           *corev1.Pod
		change        func(fixture)
		reads, writes []string
		err           string
	}{
		"the At was deleted": {
			at: example(running), pod: pod(terminating), change: func(f fixture) {
				f.Remove(f.Object())
			}, reads: []string{getAt}, writes: []string{patchPod},
		},
		"the At was deleted, and its Pod has been released": {
			at: example(running), pod: pod(terminating, released), change: func(f fixture) { f.Remove(f.Object()) },
		},
		"the At is being deleted in the foreground": {
			at: example(running, func(at *v1.At) {
				at.DeletionTimestamp, at.Finalizers = &metav1.Time{Time: noon}, []string{metav1.FinalizerDeleteDependents}
			}),
			pod: pod(terminating), reads: []string{getAt}, writes: []string{patchPod},
		},
		"the At was deleted, and its Pod was orphaned": {
			at: example(running), pod: pod(unowned), change: func(f fixture) { f.Remove(f.Object()) }, reads: []string{
				getAt,
			}, writes: []string{patchPod},
		},
		"another At has the name": {
			at: example(pending), pod: pod(ownedByOther("At", "example")), reads: []string{getAt}, writes: []string{patchPod},
		},
		"the cache lacks the At": {at: example(running), pod: pod(), change: lacking, reads: []string{getAt}},
		"the At cannot be read": {
			at: example(running), pod: pod(), change: func(f fixture) {
				lacking(f)
				f.Journal.FailNext("get", "ats", errNoResponse)
			}, reads: []string{getAt}, err: readError,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, c.at, []runtime.Object{c.pod}...)
			f.Clock.SetTime(noon.Add(-time.Hour))
			f.Observe()
			if c.change != nil {
				c.change(f)
				if kindtest.Get[*v1.At](f.Cluster, "default", "example") == nil {
					f.Observe()
				}
			}
			r := f.ReconcileAsCached()
			controllertest.ErrorContains(t, c.err, r.Err)
			controllertest.Equal(t, "reads", c.reads, r.Reads)
			controllertest.Equal(t, "writes", c.writes, r.Writes)
			again := f.ReconcileAsCached() // the cache still has the Pod
			controllertest.Equal(t, "writes of another reconcile", 0, len(again.Writes))
		})
	}
}

// TestOrphanedPodAddsKey checks that the operator finds a Pod that has no owner any more.
func TestOrphanedPodAddsKey(t *testing.T) {
	kind, err := declare(newFixture(t, example()).Cluster.Cluster, controller.Runtime{
		Events: controller.DiscardEvents{},
	}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want []controller.Key
	}{
		"a Pod with the finalizer":                {pod(unowned), []controller.Key{{Namespace: "default", Name: "example"}}},
		"a Pod without the finalizer":             {pod(unowned, released), nil},
		"a Pod that does not have an At's suffix": {pod(func(p *corev1.Pod) { p.Name = "example" }), nil},
	} {
		controllertest.Equal(t, name, c.want, kind.References[0].Referrers(c.pod))
	}
}
