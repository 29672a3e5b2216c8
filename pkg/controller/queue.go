package controller

import (
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
)

// Key names the object that a pass is about.
type Key = cache.ObjectName

// Lane says how soon a key is wanted.
type Lane int

const (
	// Background is for initial lists, resyncs, periodic checks and retries.
	Background Lane = iota
	// Urgent is for what somebody changed, be it before the start, and for promised times.
	// It goes first.
	Urgent
)

// Backoff of one key: after OutcomeError and those like it, and after OutcomeConflict.
const (
	backoffBase  = time.Second
	backoffLimit = 5 * time.Minute
	quickBase    = 5 * time.Millisecond
	quickLimit   = time.Second
)

// Queue is a rate-limited workqueue with two lanes. A key waits in it at most
// once, is worked on by one worker at a time, and counts as urgent as soon as
// anybody wants it urgently. In each lane namespaces take turns, and those come first
// that the fewest workers work for.
//
// It is put together from client-go's typed queues: one queue of keys, whose
// order lanes decides, and two delaying queues in front of it, one for each
// lane that a timer can end in.
type Queue struct {
	keys    workqueue.TypedInterface[Key]
	lanes   *lanes
	retries workqueue.TypedRateLimitingInterface[Key] // timers that end in the background lane
	timers  workqueue.TypedDelayingInterface[Key]     // timers that end in the urgent lane
	quick   workqueue.TypedRateLimiter[Key]
}

// NewQueue returns an empty queue. Its metrics (workqueue_*) bear the name.
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

// Add wants a pass for key as soon as a worker is free.
func (q *Queue) Add(key Key, lane Lane) {
	if lane == Urgent {
		q.lanes.markUrgent(key)
	}
	q.keys.Add(key)
}

// AddAfter wants a pass for key in d. Of several timers for a key in one lane
// the earliest counts.
func (q *Queue) AddAfter(key Key, d time.Duration, lane Lane) {
	if lane == Urgent {
		q.timers.AddAfter(key, d)
		return
	}
	q.retries.AddAfter(key, d)
}

// AddWithBackoff wants a pass for key after 1 s, 2 s, 4 s … 5 min, growing from
// call to call until Forget.
func (q *Queue) AddWithBackoff(key Key) {
	q.retries.AddRateLimited(key)
}

// AddQuickly wants a pass for key after 5 ms, growing to 1 s until Forget: for a
// pass that was only out of date.
func (q *Queue) AddQuickly(key Key) {
	q.timers.AddAfter(key, q.quick.When(key))
}

// Forget ends the backoff of key.
func (q *Queue) Forget(key Key) {
	q.retries.Forget(key)
	q.quick.Forget(key)
}

// Get waits for the next key. The caller calls Done when the pass has ended.
func (q *Queue) Get() (key Key, shutdown bool) { return q.keys.Get() }

// Done ends the pass of key, and puts it back if it was added meanwhile.
func (q *Queue) Done(key Key) {
	q.lanes.done(key)
	q.keys.Done(key)
}

// Len is the number of keys that wait for a worker.
func (q *Queue) Len() int { return q.keys.Len() }

// ShutDown takes no more keys and ends the timers. Get hands out what is left.
func (q *Queue) ShutDown() {
	q.timers.ShutDown()
	q.retries.ShutDown()
}

// urgentKeys is where the urgent timers end.
type urgentKeys struct {
	workqueue.TypedInterface[Key]
	lanes *lanes
}

func (u urgentKeys) Add(key Key) {
	u.lanes.markUrgent(key)
	u.TypedInterface.Add(key)
}
