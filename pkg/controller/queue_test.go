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

// wish is a key to add to a lane.
type wish struct {
	name string
	lane controller.Lane
}

func background(name string) wish { return wish{name, controller.Background} }
func urgent(name string) wish     { return wish{name, controller.Urgent} }

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

// numbered returns wishes for n keys: a, b, c …
func numbered(n int, lane controller.Lane) []wish {
	var wishes []wish
	for i := range n {
		wishes = append(wishes, wish{string(rune('a' + i)), lane})
	}
	return wishes
}

func TestQueueOrder(t *testing.T) {
	for name, test := range map[string]struct {
		wishes []wish
		want   []string
	}{
		"each lane keeps the order of arrival, the urgent one goes first": {
			[]wish{background("b1"), urgent("u1"), background("b2"), urgent("u2")}, []string{"u1", "u2", "b1", "b2"},
		},
		"a key that is wanted twice comes once": {
			[]wish{background("b"), urgent("u"), background("b"), urgent("u")}, []string{"u", "b"},
		},
		"a key that was in the background first counts as urgent": {
			[]wish{background("b1"), background("both"), urgent("u"), urgent("both")}, []string{"u", "both", "b1"},
		},
		"a key that was urgent first stays urgent": {
			[]wish{urgent("both"), urgent("u"), background("b"), background("both")}, []string{"both", "u", "b"},
		},
		"after ten urgent keys comes one from the background": {
			append([]wish{background("b1"), background("b2")}, numbered(22, controller.Urgent)...),
			[]string{
				"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "b1",
				"k", "l", "m", "n", "o", "p", "q", "r", "s", "t", "b2", "u", "v",
			},
		},
		"urgent keys do not wait for a background that is empty": {
			append(numbered(12, controller.Urgent), background("z")),
			[]string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "z", "k", "l"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			q := controller.NewQueue("", clock.RealClock{})
			defer q.ShutDown()
			for _, w := range test.wishes {
				q.Add(keyOf(w.name), w.lane)
			}
			controllertest.Equal(t, "order", test.want, handOut(q))
		})
	}
}

func TestQueueRequeuesKeyAddedDuringReconcile(t *testing.T) {
	q := controller.NewQueue("", clock.RealClock{})
	defer q.ShutDown()
	q.Add(keyOf("a"), controller.Background)
	a, _ := q.Get()
	q.Add(keyOf("b"), controller.Background)
	q.Add(a, controller.Urgent)
	q.Add(a, controller.Background)
	b, _ := q.Get()
	if b.Name != "b" || q.Len() != 0 {
		t.Fatalf("got %s, and %d keys wait, while a is worked on", b, q.Len())
	}
	q.Done(b)
	q.Add(b, controller.Background)
	q.Done(a)
	controllertest.Equal(t, "order", []string{"a", "b"}, handOut(q)) // a is still urgent
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
		"a timer ends when its time has come": func(t *testing.T, q stepped) {
			q.AddAfter(keyOf("a"), time.Hour, controller.Urgent)
			q.wantAfter(t, time.Hour, "a")
		},
		"a timer that has passed already ends at once": func(t *testing.T, q stepped) {
			q.AddAfter(keyOf("b"), -time.Hour, controller.Background)
			q.AddAfter(keyOf("a"), 0, controller.Urgent)
			controllertest.Equal(t, "order", []string{"a", "b"}, handOut(q.Queue))
		},
		"of two timers in a lane the earlier counts, if it is set second": func(t *testing.T, q stepped) {
			q.AddAfter(keyOf("a"), time.Hour, controller.Urgent)
			q.AddAfter(keyOf("a"), time.Minute, controller.Urgent)
			q.wantAfter(t, time.Minute, "a")
			q.step(2 * time.Hour)
			controllertest.Equal(t, "left", nil, handOut(q.Queue))
		},
		"of two timers in a lane the earlier counts, if it is set first": func(t *testing.T, q stepped) {
			q.AddAfter(keyOf("a"), time.Minute, controller.Background)
			q.AddAfter(keyOf("a"), time.Hour, controller.Background)
			q.wantAfter(t, time.Minute, "a")
		},
		"the backoff doubles from 1 s to 5 min, until it is forgotten": func(t *testing.T, q stepped) {
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
		"the quick retry doubles from 5 ms to 1 s, until it is forgotten": func(t *testing.T, q stepped) {
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
