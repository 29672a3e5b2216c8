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
	// Background is for initial lists, redeliveries, periodic checks, status changes by other clients, and
	// retries after most errors.
	Background Lane = iota
	// Urgent is for changes, for a RequeueAfter without Check, and for retries of AddQuickly. Changes include spec changes
	// that happened while no process reconciled the object. Workers take urgent keys first.
	Urgent
)

// String returns the label lane of the metric windlass_queue_wait_seconds.
func (l Lane) String() string {
	if l == Urgent {
		return "urgent"
	}
	return "background"
}

// The backoff of a key starts at backoffBase and grows to backoffLimit after outcomes such as OutcomeError. After
// OutcomeConflict, the backoff starts at quickBase and grows to quickLimit.
const (
	backoffBase  = time.Second
	backoffLimit = 5 * time.Minute
	quickBase    = 5 * time.Millisecond
	quickLimit   = time.Second
)

// gaugeInterval is how often a Queue updates its metrics that grow with time: workqueue_unfinished_work_seconds and
// workqueue_longest_running_processor_seconds. By default, client-go updates them every 500 ms, which wakes an idle
// process twice a second.
const gaugeInterval = 10 * time.Second

// gaugeClock is the clock of a queue of keys. The queue uses a ticker only to update these metrics, so gaugeClock makes
// the ticker slower.
type gaugeClock struct{ clock.WithTicker }

// NewTicker implements clock.WithTicker.
func (c gaugeClock) NewTicker(interval time.Duration) clock.Ticker {
	return c.WithTicker.NewTicker(max(interval, gaugeInterval))
}

// Queue is a rate-limited workqueue with two lanes. A key is queued at most once, and is processed by
// one worker at a time. A key that was added as urgent stays urgent until a worker takes it. In each
// lane, namespaces take turns, and a namespace with the fewest workers goes first.
//
// A Queue consists of typed queues of client-go: a queue of keys, in the order that lanes decides, and a
// delaying queue in front of it.
type Queue struct {
	keys   workqueue.TypedInterface[Key]
	lanes  *lanes
	timers workqueue.TypedDelayingInterface[timer]
	// retries and quick are the backoffs of AddRateLimited and AddQuickly.
	retries, quick workqueue.TypedRateLimiter[Key]
}

// timer is a key that is added to a lane later.
type timer struct {
	key  Key
	lane Lane
}

// NewQueue returns an empty queue. name is the value of the label name of the metrics workqueue_*, and of the label
// controller of windlass_queue_wait_seconds.
func NewQueue(name string, clk clock.WithTicker) *Queue {
	q := &Queue{
		lanes: newLanes(clk, func(lane Lane, waited time.Duration) {
			queueWait.WithLabelValues(name, lane.String()).Observe(waited.Seconds())
		}),
		retries: workqueue.NewTypedItemExponentialFailureRateLimiter[Key](backoffBase, backoffLimit),
		quick:   workqueue.NewTypedItemExponentialFailureRateLimiter[Key](quickBase, quickLimit),
	}
	q.keys = workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[Key]{
		Name: name, Clock: gaugeClock{clk}, Queue: q.lanes,
	})
	q.timers = workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[timer]{
		Name: name, Clock: clk, Queue: due{q},
	})
	return q
}

// Add adds key to lane. A queued key that is urgent stays urgent.
func (q *Queue) Add(key Key, lane Lane) {
	if lane == Urgent {
		q.lanes.markUrgent(key)
	}
	q.keys.Add(key)
}

// AddAfter adds key to lane after d. If it is called several times for a key and a lane, the earliest
// time counts.
func (q *Queue) AddAfter(key Key, d time.Duration, lane Lane) {
	q.timers.AddAfter(timer{key, lane}, d)
}

// AddRateLimited adds key to the background lane after 1 s. Each further call before Forget doubles the
// delay, up to 5 minutes.
func (q *Queue) AddRateLimited(key Key) {
	q.AddAfter(key, q.retries.When(key), Background)
}

// AddQuickly adds key to the urgent lane after 5 ms. Each further call before Forget doubles the delay,
// up to 1 s. It is for reconciles that failed because a cached object was outdated.
func (q *Queue) AddQuickly(key Key) {
	q.AddAfter(key, q.quick.When(key), Urgent)
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

// ShutDown makes the queue ignore new keys, and stops the timers. Get returns the keys that are left, and then reports
// shutdown. The delaying queue of the timers calls due.ShutDown, which shuts down the queue of keys.
func (q *Queue) ShutDown() { q.timers.ShutDown() }

// due adapts the queue of keys to the delaying queue: when a timer expires, the delaying queue calls due.Add, which
// adds the key to its lane. The delaying queue calls only Add, ShutDown and ShuttingDown.
type due struct{ *Queue }

func (d due) Add(t timer)                   { d.Queue.Add(t.key, t.lane) }
func (d due) Get() (t timer, shutdown bool) { t.key, shutdown = d.keys.Get(); return t, shutdown }
func (d due) Done(t timer)                  { d.Queue.Done(t.key) }
func (d due) ShutDown()                     { d.keys.ShutDown() }
func (d due) ShutDownWithDrain()            { d.keys.ShutDownWithDrain() }
func (d due) ShuttingDown() bool            { return d.keys.ShuttingDown() }
