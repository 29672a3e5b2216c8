package at

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/kindtest"
)

func TestAtTakesFiveWritesAndNoReads(t *testing.T) {
	f := newFixtureAtNoon(t)
	controllertest.Equal(t, "RequeueAfter while the command runs", 0, f.settle())
	controllertest.Equal(t, "namespace", "default", f.onlyPod().Namespace)
	controllertest.Equal(t, "name", "example-pod", f.onlyPod().Name)
	f.Clock.SetTime(noon.Add(time.Minute))
	f.exit(0)
	controllertest.Equal(t, "RequeueAfter once the command has ended", 0, f.settle())
	for range 100 {
		r := f.ReconcileAsCached()
		controllertest.Equal(t, "result of a resync", controller.Result{}, r.Result)
		controllertest.ErrorContains(t, "", r.Err)
	}
	controllertest.Equal(t, "writes", []string{updateStatus, updateStatus, createPod, updateStatus, patchPod},
		f.Journal.Writes())
	controllertest.Equal(t, "reads", nil, f.Journal.Reads())
	controllertest.Equal(t, "events", []string{scheduledEvent, runningEvent, succeededEvent}, f.Events.Events())
	controllertest.Equal(t, "conditions", completeConditions(exit0Message), controllertest.Conditions(f.Object()))
	controllertest.Equal(t, "status", doneStatus(exitCode(0)), withoutConditions(f.Object()))
}

func TestRetriesWaitLongerEachTime(t *testing.T) {
	f := newFixtureAtNoon(t, withBackoffLimit(8))
	var delays []time.Duration
	for f.settle(); f.Object().Status.Phase == v1.AtRunning; f.settle() {
		controllertest.Equal(t, "attempt of the Pod", f.Object().Status.Failed, attemptOf(f.onlyPod()))
		f.exit(3)
		failed := f.Clock.Now()
		for delay := f.settle(); delay > 0; delay = f.settle() {
			f.Clock.SetTime(f.Clock.Now().Add(delay))
		}
		if delay := f.Clock.Since(failed); delay > 0 {
			delays = append(delays, delay)
		}
	}
	const s = time.Second
	controllertest.Equal(t, "delays", []time.Duration{
		10 * s, 20 * s, 40 * s, 80 * s, 160 * s, 320 * s, 360 * s, 360 * s,
	}, delays)
	controllertest.Equal(t, "failed", 9, f.Object().Status.Failed)
	f.onlyPod() // the last Pod is not deleted, because of its log
}

// TestNew runs the controller with informers until an At is Done.
func TestNew(t *testing.T) {
	f := newFixture(t, example())
	f.Cluster.Restart()
	c, err := New(f.Cluster.Cluster, f.Runtime(), Options{DefaultImage: "tool:1"})
	if err != nil {
		t.Fatal(err)
	}
	controllertest.Equal(t, "name", "at", c.Name())
	controllertest.Run(t, c, 2, f.Owned, f.Kinds)
	f.Eventually("the Pod", func() bool {
		return kindtest.Get[*corev1.Pod](f.Cluster, "default", "example-pod") != nil
	})
	controllertest.Equal(t, "image", "tool:1", f.onlyPod().Spec.Containers[0].Image)
	f.exit(0)
	f.Eventually("the release of the Pod", func() bool { return len(f.onlyPod().Finalizers) == 0 })
	controllertest.Equal(t, "phase", v1.AtDone, f.Object().Status.Phase)
	controllertest.Equal(t, "writes", []string{updateStatus, createPod, updateStatus, patchPod}, f.Journal.Writes())
}

func TestNewRejectsStartedInformer(t *testing.T) {
	c := kindtest.NewCluster(t)
	pods := c.Owned.Core().V1().Pods().Informer()
	ctx, cancel := context.WithCancel(t.Context())
	c.Owned.Start(ctx.Done())
	defer c.Owned.Shutdown()
	defer cancel()
	c.Eventually("the cache of Pods", pods.HasSynced)
	_, err := New(c.Cluster, c.Runtime(), Options{})
	controllertest.ErrorContains(t, "setting the transform of the cache of Pods", err)
}
