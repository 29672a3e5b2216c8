package controller_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

// happen records one Event for each of n Toys of a namespace.
func happen(events *controller.Events, namespace string, n int) {
	for i := range n {
		toy := newToy(fmt.Sprint("toy-", i))
		toy.Namespace = namespace
		events.Event(toy, corev1.EventTypeNormal, "Painted", "") // must not block, although nothing reads the queue
	}
}

// perNamespace counts Events by namespace.
func perNamespace(events []*eventsv1.Event) map[string]int {
	n := map[string]int{}
	for _, event := range events {
		n[event.Namespace]++
	}
	return n
}

func TestFullEventQueueDropsEventsOfBusiestNamespace(t *testing.T) {
	for name, test := range map[string]struct {
		happens func(events *controller.Events)
		want    map[string]int
		dropped int
	}{
		"later namespace loses no Event": {
			func(events *controller.Events) { happen(events, "greedy", 10000); happen(events, "modest", 100) },
			map[string]int{"greedy": 3996, "modest": 100}, 10000 - 3996,
		},
		"earlier namespace loses no Event": {
			func(events *controller.Events) { happen(events, "modest", 100); happen(events, "greedy", 10000) },
			map[string]int{"greedy": 3996, "modest": 100}, 10000 - 3996,
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := dropped(t)
			server := &eventServer{}
			events := newEvents(server)
			test.happens(events)
			controllertest.Equal(t, "dropped", test.dropped, dropped(t)-before)
			flush(events)
			controllertest.Equal(t, "written", test.want, perNamespace(server.stored))
		})
	}
}

func TestFullEventQueueDropsEventsOfFurtherNamespaces(t *testing.T) {
	before := dropped(t)
	server := &eventServer{}
	events := newEvents(server)
	for i := range 4096 + 3 {
		happen(events, fmt.Sprint("tenant-", i), 1)
	}
	flush(events)
	controllertest.Equal(t, "dropped", 3, dropped(t)-before)
	controllertest.Equal(t, "written", 4096, len(server.stored))
}

func TestNamespacesTakeTurnsToWriteEvents(t *testing.T) {
	server := &eventServer{}
	events := newEvents(server)
	happen(events, "greedy", 1000)
	happen(events, "modest", 2)
	flush(events)
	controllertest.Equal(t, "the first four", map[string]int{"greedy": 2, "modest": 2}, perNamespace(server.stored[:4]))
}

func TestEventBudgetLimitsEventsOfOneObject(t *testing.T) {
	server, clk := &eventServer{}, clocktesting.NewFakePassiveClock(epoch)
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(toyKind, &Toy{})
	events := controller.NewEvents(server, scheme, "windlass.dev/controller", "pod-1", clk)
	before := dropped(t)
	for range 100 {
		events.Event(newToy("a"), corev1.EventTypeNormal, "Painted", "")
	}
	events.Event(newToy("b"), corev1.EventTypeNormal, "Painted", "")
	clk.SetTime(epoch.Add(5 * time.Minute))
	for range 2 {
		events.Event(newToy("a"), corev1.EventTypeNormal, "Painted", "")
	}
	flush(events)
	controllertest.Equal(t, "written", 25+1+1, len(server.stored))
	controllertest.Equal(t, "dropped", 75+1, dropped(t)-before)
}
