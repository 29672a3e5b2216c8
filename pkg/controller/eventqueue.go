package controller

import (
	"slices"
	"sync"

	eventsv1 "k8s.io/api/events/v1"
)

// eventQueue holds the Events that wait to be written. Namespaces take turns. If more than limit Events
// wait, the queue drops the newest Event of the namespace that has the most. A namespace with many Events
// thus displaces no Events of a namespace with fewer.
type eventQueue struct {
	limit int
	// added has a value when an Event may be waiting.
	added chan struct{}

	mu    sync.Mutex
	count int
	turns []string // namespaces with waiting Events, in the order of their turns
	of    map[string][]*eventsv1.Event
}

func newEventQueue(limit int) *eventQueue {
	return &eventQueue{limit: limit, added: make(chan struct{}, 1), of: map[string][]*eventsv1.Event{}}
}

// add appends an Event. It reports whether it dropped an Event because of the limit.
func (q *eventQueue) add(event *eventsv1.Event) (dropped bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	namespace := event.Namespace
	if len(q.of[namespace]) == 0 {
		q.turns = append(q.turns, namespace)
	}
	q.of[namespace] = append(q.of[namespace], event)
	if q.count++; q.count > q.limit {
		q.dropNewest(q.longest(namespace))
		dropped = true
	}
	select {
	case q.added <- struct{}{}:
	default:
	}
	return dropped
}

// longest returns the namespace with the most Events. It returns the given namespace if no other has
// more.
func (q *eventQueue) longest(namespace string) string {
	for _, other := range q.turns {
		if len(q.of[other]) > len(q.of[namespace]) {
			namespace = other
		}
	}
	return namespace
}

// dropNewest drops the newest Event of a namespace.
func (q *eventQueue) dropNewest(namespace string) {
	last := len(q.of[namespace]) - 1
	q.of[namespace][last] = nil
	q.of[namespace] = q.of[namespace][:last]
	q.count--
	if last == 0 {
		delete(q.of, namespace)
		q.turns = slices.DeleteFunc(q.turns, func(turn string) bool { return turn == namespace })
	}
}

// take removes and returns the oldest Event of the namespace whose turn it is, or nil if none waits.
func (q *eventQueue) take() *eventsv1.Event {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.turns) == 0 {
		return nil
	}
	namespace := q.turns[0]
	event := q.of[namespace][0]
	q.of[namespace] = q.of[namespace][1:]
	q.count--
	q.turns = q.turns[1:]
	if len(q.of[namespace]) == 0 {
		delete(q.of, namespace)
	} else {
		q.turns = append(q.turns, namespace)
	}
	return event
}
