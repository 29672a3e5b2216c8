package at

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	clocktesting "k8s.io/utils/clock/testing"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/cluster"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/generated/informers/externalversions"
	"windlass.dev/windlass/pkg/kinds"
)

// born returns a world with one new At, and sets its clock from an hour before the scheduled time to that
// time.
func born(t *testing.T, changes ...func(*v1.At)) *world {
	w := newWorld(t, noon.Add(-hour), true)
	w.put(w.cnat.Tracker(), example(changes...))
	controllertest.Equal(t, "wait for the time", clockCheck, w.settle())
	w.clock.SetTime(noon)
	return w
}

// ends has the kubelet report that the command of the Pod ended just now.
func (w *world) ends(code int32) {
	w.t.Helper()
	for _, p := range w.livePods() {
		ended(code)(p)
		p.Status.ContainerStatuses[0].State.Terminated.FinishedAt = metav1.NewTime(w.clock.Now())
		if err := w.kube.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), w.stamped(p), p.Namespace); err != nil {
			w.t.Fatal(err)
		}
	}
}

func TestALifeCostsFourWritesAndNoRead(t *testing.T) {
	w := born(t)
	controllertest.Equal(t, "wait for the command", 0, w.settle())
	controllertest.Equal(t, "Pod", "default/example-pod", w.livePods()[0].Namespace+"/"+w.livePods()[0].Name)
	w.clock.SetTime(noon.Add(time.Minute))
	w.ends(0)
	controllertest.Equal(t, "wait for nothing", 0, w.settle())
	for range 100 {
		if result, err := w.pass(); err != nil || result != (controller.Result{}) {
			t.Fatalf("a resync ended with %v, %v", result, err)
		}
	}
	controllertest.Equal(t, "writes", []string{status, status, writePod, status}, w.journal.Writes())
	controllertest.Equal(t, "gets", nil, w.gets)
	controllertest.Equal(t, "events", []string{
		"Normal Scheduled default/example: " + runsAt,
		isRunning,
		"Normal CommandSucceeded default/example: " + ended0,
	}, w.events.Events())
	controllertest.Equal(t, "status", afterNoon+", exit 0", summary(w.at()))
	controllertest.Equal(t, "generation", 1, w.at().Status.ObservedGeneration)
}

func TestRetriesWaitLongerEachTime(t *testing.T) {
	w := born(t, tries(9))
	var delays []time.Duration
	for w.settle(); w.at().Status.Phase == v1.AtRunning; w.settle() {
		controllertest.Equal(t, "Pods", 1, len(w.livePods()))
		controllertest.Equal(t, "attempt of the Pod", w.at().Status.Failed, attemptOf(w.livePods()[0]))
		w.ends(3)
		failed := w.clock.Now()
		for wait := w.settle(); wait > 0; wait = w.settle() {
			w.clock.SetTime(w.clock.Now().Add(wait))
		}
		if delay := w.clock.Now().Sub(failed); delay > 0 {
			delays = append(delays, delay)
		}
	}
	var seconds []float64
	for _, delay := range delays {
		seconds = append(seconds, delay.Seconds())
	}
	controllertest.Equal(t, "delays in seconds", []float64{10, 20, 40, 80, 160, 320, 360, 360}, seconds)
	controllertest.Equal(t, "failed", 9, w.at().Status.Failed)
	controllertest.Equal(t, "Pods", 1, len(w.livePods())) // the last one stays for its log
}

func TestALostPodIsMadeAgainAndNotCounted(t *testing.T) {
	w := born(t, tries(2))
	w.settle()
	lost := w.livePods()[0]
	if err := w.kube.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), "default", lost.Name); err != nil {
		t.Fatal(err)
	}
	w.settle()
	if again := w.livePods()[0]; again.UID == lost.UID || attemptOf(again) != 0 {
		t.Errorf("the Pod was made again as %v", again)
	}
	controllertest.Equal(t, "status", isRunnow, summary(w.at()))
}

// TestNew runs the controller with informers until an At is Done.
func TestNew(t *testing.T) {
	w := newWorld(t, noon, false)
	cnatInformers := externalversions.NewSharedInformerFactory(w.cnat, 0)
	kubeInformers := informers.NewSharedInformerFactory(w.kube, 0)
	clk := clocktesting.NewFakeClock(noon)
	c, err := New(kinds.Cluster{
		Cluster:  cluster.Cluster{Kube: w.kube, Owned: kubeInformers},
		Windlass: w.cnat, Own: cnatInformers,
	}, controller.Runtime{Events: w.events, Clock: clk}, Options{DefaultImage: "tool:1"})
	if err != nil {
		t.Fatal(err)
	}
	controllertest.Equal(t, "name", "at", c.Name())
	controllertest.Run(t, c, 2, kubeInformers, cnatInformers)

	if _, err := w.cnat.CnatV1().Ats("default").Create(t.Context(), example(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("its Pod", func() bool {
		clk.Step(time.Millisecond)
		return len(w.livePods()) == 1
	})
	controllertest.Equal(t, "image", "tool:1", w.livePods()[0].Spec.Containers[0].Image)
	w.ends(0)
	w.eventually("its end", func() bool { return w.at().Status.Phase == v1.AtDone })
	controllertest.Equal(t, "writes", []string{"create ats default/example", status, writePod, status}, w.journal.Writes())
}

// eventually waits until a running controller has done something.
func (w *world) eventually(what string, holds func() bool) {
	w.t.Helper()
	err := wait.PollUntilContextTimeout(w.t.Context(), time.Millisecond, time.Minute, true, func(context.Context) (bool, error) { return holds(), nil })
	if err != nil {
		w.t.Fatalf("waiting for %s: %v", what, err)
	}
}

func TestNewNeedsInformersThatHaveNotStarted(t *testing.T) {
	w := newWorld(t, noon, false)
	kubeInformers := informers.NewSharedInformerFactory(w.kube, 0)
	ctx, cancel := context.WithCancel(t.Context())
	pods := kubeInformers.Core().V1().Pods().Informer()
	kubeInformers.Start(ctx.Done())
	defer kubeInformers.Shutdown()
	defer cancel()
	w.eventually("the informer", pods.HasSynced)
	_, err := New(kinds.Cluster{
		Cluster:  cluster.Cluster{Kube: w.kube, Owned: kubeInformers},
		Windlass: w.cnat,
	}, controller.Runtime{Events: w.events}, Options{})
	if err == nil {
		t.Error("Pods that are in the cache as they came were not refused")
	}
}
