package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"windlass.dev/windlass/pkg/controller"
)

// measureEngine counts the reconciles for periodic checks that begin before the reconcile for a change of a user. It
// needs no API server.
func (o *options) measureEngine(ctx context.Context) (err error) {
	o.results.Waits = map[string]int{}
	for name, queue := range map[string]checksQueue{"Windlass": newWindlassQueue(), "controller-runtime": newPeerQueue()} {
		if o.results.Waits[name], err = passesBeforeAChange(ctx, queue); err != nil {
			return fmt.Errorf("measuring the queue of %s: %w", name, err)
		}
		o.tell("%d checks wait, %s: %d reconciles begin between a change and its own reconcile", waitingChecks, name,
			o.results.Waits[name])
	}
	return nil
}

// waitingChecks is the number of periodic checks in the queue when somebody changes an object.
const waitingChecks = 10000

// checksQueue is a queue whose keys are numbers.
type checksQueue interface {
	check(n int)  // adds a key for its periodic check
	change(n int) // adds the key of a changed object
	waiting() int
	next() int // takes a key, and never marks it as done
}

// passesBeforeAChange counts the reconciles that begin between a change and the reconcile of the changed
// object, while many checks wait and all workers are busy.
func passesBeforeAChange(ctx context.Context, q checksQueue) (n int, err error) {
	for n := range waitingChecks {
		q.check(n)
	}
	settled := func(n int) error {
		const patience, again = time.Minute, time.Millisecond
		return wait.PollUntilContextTimeout(ctx, again, patience, true, func(context.Context) (bool, error) {
			return q.waiting() == n, nil
		})
	}
	if err := settled(waitingChecks); err != nil {
		return 0, err
	}
	for range workers {
		q.next()
	}
	q.change(waitingChecks)
	if err := settled(waitingChecks - workers + 1); err != nil {
		return 0, err
	}
	for q.next() != waitingChecks {
		n++
	}
	return n, nil
}

type windlassQueue struct{ *controller.Queue }

func newWindlassQueue() checksQueue {
	return windlassQueue{controller.NewQueue("bench", clock.RealClock{})}
}

func (q windlassQueue) check(n int) {
	q.Add(controller.Key{Name: strconv.Itoa(n)}, controller.Background)
}
func (q windlassQueue) change(n int) { q.Add(controller.Key{Name: strconv.Itoa(n)}, controller.Urgent) }
func (q windlassQueue) waiting() int { return q.Len() }
func (q windlassQueue) next() int {
	key, _ := q.Get()
	n, err := strconv.Atoi(key.Name)
	if err != nil {
		return -1 // no such key was added
	}
	return n
}

type peerQueue struct {
	priorityqueue.PriorityQueue[int]
}

func newPeerQueue() checksQueue { return peerQueue{priorityqueue.New[int]("bench")} }

func (q peerQueue) check(n int) {
	low := handler.LowPriority // the priority of a resync
	q.AddWithOpts(priorityqueue.AddOpts{Priority: &low}, n)
}
func (q peerQueue) change(n int) { q.Add(n) }
func (q peerQueue) waiting() int { return q.Len() }
func (q peerQueue) next() int {
	n, _ := q.Get()
	return n
}
