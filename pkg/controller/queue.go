package controller

import (
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
)

// Key is the namespace and name of an object.
type Key = cache.ObjectName

// Lane is the priority of a key in a Queue.
type Lane int

const (
	// Background is for initial lists, resyncs, periodic checks and retries.
	Background Lane = iota
	// Urgent is for the changes of users, also those from before the start of the process, and
	// for promised times. It goes first.
	Urgent
)

// The first and the longest backoff of a key: backoffBase and backoffLimit after outcomes such as
// OutcomeError, and quickBase and quickLimit after OutcomeConflict and OutcomeBehind.
const (
	backoffBase  = time.Second
	backoffLimit = 5 * time.Minute
	quickBase    = 5 * time.Millisecond
	quickLimit   = time.Second
)

// Queue is a rate-limited workqueue with two lanes. A key is in it at most once, is processed by
// one worker at a time, and stays urgent once it was added as urgent. In each lane namespaces
// take turns, starting with the namespaces that have the fewest workers.
//
// A Queue consists of typed queues of client-go: one queue of keys, whose order lanes decides, and
// two delaying queues in front of it, one for each lane.
type Queue struct {
	keys    workqueue.TypedInterface[Key]
	lanes   *lanes
	retries workqueue.TypedRateLimitingInterface[Key] // timers that end in the background lane
	timers  workqueue.TypedDelayingInterface[Key]     // timers that end in the urgent lane
	quick   workqueue.TypedRateLimiter[Key]
}

// NewQueue returns an empty queue. name is the name label of its metrics (workqueue_*).
func NewQueue(name string, clk clock.WithTicker) *Queue {
	q := &Queue{
		lanes: newLanes(),
		quick: workqueue.NewTypedItemExponentialFailureRateLimiter[Key](quickBase, quickLimit),
	}
	q.keys = workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[Key]{Name: name, Clock: clk, Queue: q.lanes})
	q.timers = workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[Key]{
		Clock: clk,
		Queue: urgentKeys{q.keys, q.lanes},
	})
	q.retries = workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[Key](backoffBase, backoffLimit),
		workqueue.TypedRateLimitingQueueConfig[Key]{
			DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[Key]{
				Name:  name,
				Clock: clk,
				Queue: q.keys,
			}),
		})
	return q
}

// Add adds key, which is processed as soon as a worker is free.
func (q *Queue) Add(key Key, lane Lane) {
	if lane == Urgent {
		q.lanes.markUrgent(key)
	}
	q.keys.Add(key)
}

// AddAfter adds key after d. Of several timers for a key in one lane the earliest counts.
func (q *Queue) AddAfter(key Key, d time.Duration, lane Lane) {
	if lane == Urgent {
		q.timers.AddAfter(key, d)
		return
	}
	q.retries.AddAfter(key, d)
}

// AddWithBackoff adds key after 1 s, and after 2 s, 4 s … 5 min if it is called again before
// Forget.
func (q *Queue) AddWithBackoff(key Key) {
	q.retries.AddRateLimited(key)
}

// AddQuickly adds key after 5 ms, and after up to 1 s if it is called again before Forget. It is
// for reconciles that started from an outdated object.
func (q *Queue) AddQuickly(key Key) {
	q.timers.AddAfter(key, q.quick.When(key))
}

// Forget resets the backoff of key.
func (q *Queue) Forget(key Key) {
	q.retries.Forget(key)
	q.quick.Forget(key)
}

// Get blocks until it can return the next key. The caller must call Done when it has processed
// the key.
func (q *Queue) Get() (key Key, shutdown bool) { return q.keys.Get() }

// Done marks key as processed, and queues it again if it was added meanwhile.
func (q *Queue) Done(key Key) {
	q.lanes.done(key)
	q.keys.Done(key)
}

// Len returns the number of keys that wait for a worker.
func (q *Queue) Len() int { return q.keys.Len() }

// ShutDown makes the queue ignore new keys and ends the timers. Get returns the keys that are left.
func (q *Queue) ShutDown() {
	q.timers.ShutDown()
	q.retries.ShutDown()
}

// urgentKeys is the queue that urgent timers add their keys to.
type urgentKeys struct {
	workqueue.TypedInterface[Key]
	lanes *lanes
}

func (u urgentKeys) Add(key Key) {
	u.lanes.markUrgent(key)
	u.TypedInterface.Add(key)
}
