package controller_test

import (
	"fmt"
	"testing"

	"k8s.io/utils/clock"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

// crowded returns a queue to which the namespace greedy has added waiting keys. The given number of workers
// have taken one of these keys each.
func crowded(t *testing.T, waiting, workers int) *controller.Queue {
	q := controller.NewQueue("", clock.RealClock{})
	t.Cleanup(q.ShutDown)
	for i := range waiting {
		q.Add(controller.Key{Namespace: "greedy", Name: fmt.Sprint(i)}, controller.Urgent)
	}
	for range workers {
		q.Get()
	}
	return q
}

func TestQueuePrefersNamespaceWithoutWorkers(t *testing.T) {
	for name, test := range map[string]struct {
		key   controller.Key
		again bool // whether the greedy tenant adds more keys
	}{
		"of another namespace":     {controller.Key{Namespace: "modest", Name: "a"}, false},
		"of no namespace":          {controller.Key{Name: "a"}, false},
		"also if keys keep coming": {controller.Key{Namespace: "modest", Name: "a"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			q := crowded(t, 5000, 10)
			q.Add(test.key, controller.Urgent)
			for i := 0; test.again && i < 5000; i++ {
				q.Add(controller.Key{Namespace: "greedy", Name: fmt.Sprint("more-", i)}, controller.Urgent)
			}
			next, _ := q.Get()
			controllertest.Equal(t, "key", test.key, next)
		})
	}
}

// A tenant with slow reconciles gets no more workers than another tenant with queued keys.
func TestQueueSharesWorkersBetweenSlowNamespaces(t *testing.T) {
	q := crowded(t, 100, 0)
	for i := range 100 {
		q.Add(controller.Key{Namespace: "other", Name: fmt.Sprint(i)}, controller.Urgent)
	}
	taken := map[string]int{}
	for range 6 {
		key, _ := q.Get()
		taken[key.Namespace]++
	}
	controllertest.Equal(t, "workers", map[string]int{"greedy": 3, "other": 3}, taken)
	q.Add(controller.Key{Namespace: "third", Name: "slow"}, controller.Urgent)
	q.Add(controller.Key{Namespace: "third", Name: "slower"}, controller.Urgent)
	for range 2 {
		key, _ := q.Get()
		controllertest.Equal(t, "namespace", "third", key.Namespace)
	}
}

func TestQueueDoesNotCountFinishedReconciles(t *testing.T) {
	q := crowded(t, 2, 0)
	q.Add(controller.Key{Namespace: "other", Name: "a"}, controller.Urgent)
	for _, want := range []string{"greedy", "other", "greedy"} {
		key, _ := q.Get()
		controllertest.Equal(t, "namespace", want, key.Namespace)
		q.Done(key)
	}
}
