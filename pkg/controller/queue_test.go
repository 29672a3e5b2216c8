package controller_test

import (
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

// handOut takes all queued keys and returns their names in order.
func handOut(q *controller.Queue) []string {
	var names []string
	for q.Len() > 0 {
		key, _ := q.Get()
		names = append(names, key.Name)
		q.Done(key)
	}
	return names
}

func TestQueueGivesKeyToOneWorkerAtATime(t *testing.T) {
	q := controller.NewQueue("", clock.RealClock{})
	var busy [3]sync.Mutex
	var workers, users sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for {
				key, shutdown := q.Get()
				if shutdown {
					return
				}
				if !busy[key.Name[0]-'a'].TryLock() {
					t.Errorf("%s is with two workers", key)
					return
				}
				runtime.Gosched()
				busy[key.Name[0]-'a'].Unlock()
				q.Done(key)
			}
		})
	}
	for i := range 8 {
		users.Go(func() {
			for j := range 1000 {
				q.Add(keyOf(string(rune('a'+(i+j)%3))), controller.Lane(j%2))
			}
		})
	}
	users.Wait()
	q.ShutDown()
	workers.Wait()
}

// stepped is a queue whose clock moves only when step is called.
type stepped struct {
	*controller.Queue
	clock *clocktesting.FakeClock
}

// withStepped runs test in a synctest bubble, in which synctest.Wait returns when the goroutines of the
// timers are blocked. The test fails if it leaves such a goroutine behind.
func withStepped(t *testing.T, test func(t *testing.T, q stepped)) {
	synctest.Test(t, func(t *testing.T) {
		clk := clocktesting.NewFakeClock(epoch)
		q := stepped{controller.NewQueue("", clk), clk}
		defer q.ShutDown()
		test(t, q)
	})
}

func (s stepped) step(d time.Duration) {
	synctest.Wait()
	s.clock.Step(d)
	synctest.Wait()
}

// wantAfter checks that the key is queued after d and not before, and takes it.
func (s stepped) wantAfter(t *testing.T, d time.Duration, name string) {
	t.Helper()
	s.step(d - 1)
	if n := s.Len(); n != 0 {
		t.Errorf("%d keys wait before %s have passed", n, d)
	}
	s.step(1)
	controllertest.Equal(t, "keys after "+d.String(), []string{name}, handOut(s.Queue))
}

func TestTimersAddKeysToTheirLane(t *testing.T) {
	withStepped(t, func(t *testing.T, q stepped) {
		q.AddAfter(keyOf("checked"), time.Minute, controller.Background)
		q.AddAfter(keyOf("promised"), 2*time.Minute, controller.Urgent)
		q.AddAfter(keyOf("both"), 3*time.Minute, controller.Background)
		q.AddAfter(keyOf("both"), 3*time.Minute, controller.Urgent)
		q.AddRateLimited(keyOf("failed"))
		q.AddQuickly(keyOf("stale"))
		q.step(time.Hour)
		order := handOut(q.Queue)
		controllertest.Equal(t, "urgent", map[string]bool{"promised": true, "both": true, "stale": true}, set(order[:3]))
		controllertest.Equal(t, "background", map[string]bool{"checked": true, "failed": true}, set(order[3:]))
	})
}

func set(names []string) map[string]bool {
	s := map[string]bool{}
	for _, name := range names {
		s[name] = true
	}
	return s
}

func TestTimers(t *testing.T) {
	for name, test := range map[string]func(*testing.T, stepped){
		"the backoff doubles from 1 s to 5 min until Forget": func(t *testing.T, q stepped) {
			for _, seconds := range []time.Duration{1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300} {
				q.AddRateLimited(keyOf("a"))
				q.wantAfter(t, seconds*time.Second, "a")
			}
			q.AddRateLimited(keyOf("b")) // each key has its own backoff
			q.wantAfter(t, time.Second, "b")
			q.Forget(keyOf("a"))
			q.AddRateLimited(keyOf("a"))
			q.wantAfter(t, time.Second, "a")
		},
		"the quick backoff doubles from 5 ms to 1 s until Forget": func(t *testing.T, q stepped) {
			for _, ms := range []time.Duration{5, 10, 20, 40, 80, 160, 320, 640, 1000, 1000} {
				q.AddQuickly(keyOf("a"))
				q.wantAfter(t, ms*time.Millisecond, "a")
			}
			q.Forget(keyOf("a"))
			q.AddQuickly(keyOf("a"))
			q.wantAfter(t, 5*time.Millisecond, "a")
		},
	} {
		t.Run(name, func(t *testing.T) { withStepped(t, test) })
	}
}

func TestQueueShutDown(t *testing.T) {
	withStepped(t, func(t *testing.T, q stepped) {
		q.Add(keyOf("waits"), controller.Background)
		q.AddAfter(keyOf("timer"), time.Second, controller.Urgent)
		q.AddRateLimited(keyOf("failed"))
		synctest.Wait()
		q.ShutDown()
		q.ShutDown() // a second call does nothing

		q.Add(keyOf("late"), controller.Urgent)
		q.AddAfter(keyOf("late"), 0, controller.Urgent)
		q.AddAfter(keyOf("late"), time.Second, controller.Background)
		q.AddRateLimited(keyOf("late"))
		q.AddQuickly(keyOf("late"))
		q.step(time.Hour)
		controllertest.Equal(t, "left", []string{"waits"}, handOut(q.Queue))
		if _, shutdown := q.Get(); !shutdown {
			t.Error("Get does not say that the queue is shut down")
		}
	})
}

func TestWaitsAreMeasuredByLaneOfTakenKey(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Now())
	name := uniqueName()
	q := controller.NewQueue(name, clk)
	defer q.ShutDown()
	q.Add(keyOf("calm"), controller.Background)
	q.Add(keyOf("hurried"), controller.Background)
	clk.Step(2 * time.Second)
	q.Add(keyOf("hurried"), controller.Urgent) // the wait began 2 s ago
	clk.Step(time.Second)
	q.Get()
	clk.Step(7 * time.Second)
	q.Get()
	label := `controller="` + name + `",lane=`
	want := []string{
		`windlass_queue_wait_seconds_count{` + label + `"background"} 1`, `windlass_queue_wait_seconds_count{` + label +
			`"urgent"} 1`,
		`windlass_queue_wait_seconds_sum{` + label + `"background"} 10`, `windlass_queue_wait_seconds_sum{` + label +
			`"urgent"} 3`,
	}
	got := slices.DeleteFunc(samples(label), func(s string) bool { return strings.Contains(s, "_bucket{") })
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}
