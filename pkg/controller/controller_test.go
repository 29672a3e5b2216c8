package controller_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/features"
	featurestesting "k8s.io/client-go/features/testing"
	"k8s.io/client-go/tools/cache"
	cachetesting "k8s.io/client-go/tools/cache/testing"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/utils/clock"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

var serial atomic.Int64

// uniqueName returns a unique name for a controller, because the metrics of all tests are in one registry.
func uniqueName() string { return fmt.Sprintf("toys-%d", serial.Add(1)) }

// logTo returns a context whose logger writes entries up to V(2) to the buffer.
func logTo(ctx context.Context) (context.Context, ktesting.Buffer) {
	logger := ktesting.NewLogger(ktesting.NopTL{}, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(2)))
	return klog.NewContext(ctx, logger), logger.GetSink().(ktesting.Underlier).GetBuffer()
}

// runFor runs a controller with one worker for d in the caller's synctest bubble. The keys of the objects
// with these names are queued at the start.
func runFor(t *testing.T, d time.Duration, sync controller.SyncHandler, names ...string) ktesting.Buffer {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	ctx, logged := logTo(ctx)
	queue := controller.NewQueue("", clock.RealClock{})
	for _, name := range names {
		queue.Add(keyOf(name), controller.Urgent)
	}
	if err := controller.New(uniqueName(), queue, sync).Run(ctx, 1); err != nil {
		t.Errorf("Run ended with: %v", err)
	}
	return logged
}

// start runs a controller until stop is called. start and stop wait until all goroutines of the bubble are
// blocked. ended receives the error of Run.
func start(c *controller.Controller, workers int) (stop func(), ended <-chan error) {
	ctx, cancel := context.WithCancel(context.Background())
	ctx, _ = logTo(ctx)
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx, workers) }()
	synctest.Wait()
	return func() { cancel(); synctest.Wait() }, done
}

func TestRequeueTimes(t *testing.T) {
	broken := errors.New("broken")
	always := func(result controller.Result, err error) func(int) (controller.Result, error) {
		return func(int) (controller.Result, error) { return result, err }
	}
	for name, test := range map[string]struct {
		pass  func(n int) (controller.Result, error) // n is the number of reconciles before this one
		until time.Duration
		want  []string
	}{
		"a reconcile with nothing left to do is not repeated": {
			always(controller.Result{}, nil), 24 * time.Hour, []string{"0s"},
		},
		"a reconcile with RequeueAfter is repeated after this time": {
			always(controller.Result{RequeueAfter: 90 * time.Second}, nil), 5 * time.Minute, []string{
				"0s", "1m30s", "3m0s", "4m30s",
			},
		},
		"a failed reconcile is retried after 1 s, 2 s, 4 s …": {
			always(controller.Result{}, broken), 20 * time.Second, []string{"0s", "1s", "3s", "7s", "15s"},
		},
		"a reconcile without an error resets the backoff": {
			func(n int) (controller.Result, error) {
				if n == 3 {
					return controller.Result{RequeueAfter: time.Minute}, nil
				}
				return controller.Result{}, broken
			}, 2 * time.Minute, []string{"0s", "1s", "3s", "7s", "1m7s", "1m8s", "1m10s", "1m14s", "1m22s", "1m38s"},
		},
		"a conflict is retried within milliseconds": {
			always(controller.Result{}, apierrors.NewConflict(toyResource, "a", broken)), 50 * time.Millisecond,
			[]string{"0s", "5ms", "15ms", "35ms"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				var passes []string
				runFor(t, test.until, func(context.Context, controller.Key) (controller.Result, error) {
					passes = append(passes, time.Since(begin).String())
					return test.pass(len(passes) - 1)
				}, "a")
				controllertest.Equal(t, "times of passes", test.want, passes)
			})
		})
	}
}

// The only worker is busy while the timers of two objects end: first the timer of a periodic check, then the timer of a
// RequeueAfter without Check.
func TestRequeueAfterPrecedesPeriodicCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newToyServer(t)
		for _, name := range []string{"busy", "checked", "promised"} {
			server.create(newToy(name))
		}
		server.deliver()
		time.AfterFunc(time.Minute, server.deliver)
		begin := time.Now()
		var late []string
		kind := &painter{reconcile: func(_ context.Context, toy *Toy) (controller.Result, error) {
			first := time.Since(begin) < 5*time.Minute
			switch {
			case toy.Name == "busy" && first:
				return controller.Result{RequeueAfter: 5 * time.Minute}, nil
			case toy.Name == "busy":
				<-time.After(10 * time.Minute)
			case toy.Name == "promised" && first:
				return controller.Result{RequeueAfter: 13 * time.Minute}, nil
			case !first:
				late = append(late, toy.Name)
			}
			return controller.Result{}, nil
		}}
		pipeline := &controller.Pipeline[*Toy]{
			Kind: controller.Kind[*Toy]{
				Lister: server.lister, Client: server.client, Reconciler: kind, Resync: 10 * time.Minute,
				Tracker: controller.NewTracker(),
			},
			Runtime: controller.Runtime{Events: &controllertest.Recorder{}, Clock: clock.RealClock{}},
			Store:   &controllertest.Store{},
		}
		runFor(t, 17*time.Minute, pipeline.Sync, "busy", "checked", "promised")
		controllertest.Equal(t, "order", []string{"promised", "checked"}, late)
	})
}

func TestWorkersReconcileConcurrently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		var passes atomic.Int32
		queue := controller.NewQueue("", clock.RealClock{})
		c := controller.New(uniqueName(), queue, func(context.Context, controller.Key) (controller.Result, error) {
			passes.Add(1)
			<-gate
			return controller.Result{}, nil
		})
		stop, ended := start(c, 3)
		for _, name := range []string{"a", "b", "c", "d"} {
			queue.Add(keyOf(name), controller.Urgent)
		}
		synctest.Wait()
		if n := passes.Load(); n != 3 {
			t.Errorf("%d passes at a time, wanted 3", n)
		}
		close(gate)
		synctest.Wait()
		if n := passes.Load(); n != 4 {
			t.Errorf("%d passes in all, wanted 4", n)
		}
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run ended with: %v", err)
		}
	})
}

func TestStoppedControllerFinishesCurrentReconcileOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		var passes []string
		var cut error
		queue := controller.NewQueue("", clock.RealClock{})
		for _, name := range []string{"first", "second", "third"} {
			queue.Add(keyOf(name), controller.Background)
		}
		c := controller.New(uniqueName(), queue, func(ctx context.Context, key controller.Key) (controller.Result, error) {
			passes = append(passes, key.Name)
			<-gate
			cut = ctx.Err()
			return controller.Result{RequeueAfter: time.Nanosecond}, nil
		})
		stop, ended := start(c, 1)
		stop()
		select {
		case err := <-ended:
			t.Errorf("Run returned %v during a reconcile", err)
		default:
		}
		close(gate)
		synctest.Wait()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("Run ended with: %v", err)
			}
		default:
			t.Error("Run has not returned although no reconcile is in flight")
		}
		controllertest.Equal(t, "passes", []string{"first"}, passes)
		if cut != nil {
			t.Errorf("the context of the reconcile in flight ended: %v", cut)
		}
		if queue.Len() != 0 {
			t.Errorf("%d keys are left", queue.Len())
		}
	})
}

// The fake time of the bubble shows that the controller does not poll its caches: the reconcile starts at the moment at
// which the caches have synced.
func TestControllerWaitsForItsCaches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var passes []string
		queue := controller.NewQueue("", clock.RealClock{})
		queue.Add(keyOf("a"), controller.Background)
		c := controller.New(uniqueName(), queue, func(context.Context, controller.Key) (controller.Result, error) {
			passes = append(passes, time.Since(begin).String())
			return controller.Result{}, nil
		})
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		for _, after := range []time.Duration{1010 * time.Millisecond, 2020 * time.Millisecond} {
			informer := emptyInformer(t)
			c.Watch(informer, controller.SelfHandler(queue, controller.NewTracker()))
			time.AfterFunc(after, func() { informer.RunWithContext(ctx) })
		}
		running, _ := logTo(ctx)
		if err := c.Run(running, 1); err != nil {
			t.Errorf("Run ended with: %v", err)
		}
		controllertest.Equal(t, "times of passes", []string{"2.02s"}, passes)
	})
}

// emptyInformer returns an informer without objects, which does not run yet.
func emptyInformer(t *testing.T) cache.SharedInformer {
	t.Helper()
	source := cachetesting.NewFakeControllerSource()
	t.Cleanup(source.Shutdown)
	return cache.NewSharedInformer(source, &corev1.Secret{}, 0)
}

func TestRunRequiresAtomicFIFO(t *testing.T) {
	featurestesting.SetFeatureDuringTest(t, features.AtomicFIFO, false)
	queue := controller.NewQueue("", clock.RealClock{})
	queue.Add(keyOf("a"), controller.Background)
	c := controller.New("toys", queue, func(context.Context, controller.Key) (controller.Result, error) {
		t.Error("a reconcile began")
		return controller.Result{}, nil
	})
	err := c.Run(t.Context(), 1)
	if err == nil ||
		!strings.Contains(err.Error(), "unset the environment variable KUBE_FEATURE_AtomicFIFO, or set it to true") {
		t.Errorf("Run ended with: %v", err)
	}
}
