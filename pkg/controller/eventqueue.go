package controller

import (
	"sync"

	eventsv1 "k8s.io/api/events/v1"
)

// eventQueue holds the Events that wait to be written. Namespaces take turns. If more than limit Events wait, the queue
// drops the newest Event of the namespace with the most Events. A namespace with many Events therefore displaces no
// Events of a namespace with fewer Events.
type eventQueue struct {
	limit int
	// added has a value when an Event may be waiting.
	added chan struct{}

	mu     sync.Mutex
	count  int
	events *fairQueue[*eventsv1.Event]
}

func newEventQueue(limit int) *eventQueue {
	return &eventQueue{limit: limit, added: make(chan struct{}, 1), events: newFairQueue[*eventsv1.Event]()}
}

// add appends an Event. It reports whether it dropped an Event because of the limit.
func (q *eventQueue) add(event *eventsv1.Event) (dropped bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	namespace := tenant{Namespace: event.Namespace}
	q.events.add(namespace, event)
	if q.count == q.limit {
		q.events.dropNewest(namespace)
		return true
	}
	q.count++
	select {
	case q.added <- struct{}{}:
	default:
	}
	return false
}

// take removes and returns the oldest Event of the next namespace, or nil if no Event waits. Namespaces take turns.
func (q *eventQueue) take() *eventsv1.Event {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.count == 0 {
		return nil
	}
	q.count--
	return q.events.take(func(tenant) int { return 0 })
}
