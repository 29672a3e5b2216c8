package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"windlass.dev/windlass/pkg/controller"
)

// cost is what a pass takes, by testing.B.
type cost struct {
	Nanoseconds, Bytes, Allocations float64
}

// The benchmark of a pass at rest, and its two parts.
const (
	restBenchmark = "BenchmarkAPassAtRest"
	nothingToDo   = "with_nothing_to_do"
	comparesAll   = "that_compares_everything"
)

// measureEngine measures what needs no API server: a pass that finds nothing to do, and
// how long a user waits behind periodic checks.
func (o *options) measureEngine(ctx context.Context) error {
	run := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "^"+restBenchmark+"$", "./pkg/kinds/app")
	var failure bytes.Buffer
	run.Stderr = &failure
	output, err := run.Output()
	if err != nil {
		return fmt.Errorf("go test: %w: %s%s", err, output, failure.String())
	}
	if o.results.Passes, err = costs(string(output)); err != nil {
		return err
	}
	for _, part := range []string{nothingToDo, comparesAll} {
		c, ok := o.results.Passes[part]
		if !ok {
			return fmt.Errorf("go test did not run %s/%s: %s", restBenchmark, part, output)
		}
		o.tell("a pass %s: %.0f ns, %.0f allocations", strings.ReplaceAll(part, "_", " "), c.Nanoseconds, c.Allocations)
	}
	o.results.Waits = map[string]int{}
	for name, queue := range map[string]checksQueue{"Windlass": newWindlassQueue(), "controller-runtime": newPeerQueue()} {
		if o.results.Waits[name], err = passesBeforeAChange(ctx, queue); err != nil {
			return fmt.Errorf("the queue of %s: %w", name, err)
		}
		o.tell("%d checks wait, %s: %d passes begin between a change and its own", waitingChecks, name, o.results.Waits[name])
	}
	return nil
}

// costs reads what go test says of the parts of restBenchmark.
func costs(output string) (map[string]cost, error) {
	all := map[string]cost{}
	for line := range strings.Lines(output) {
		fields := strings.Fields(line)
		if len(fields) == 0 || !strings.HasPrefix(fields[0], restBenchmark+"/") {
			continue
		}
		var c cost
		units := map[string]*float64{"ns/op": &c.Nanoseconds, "B/op": &c.Bytes, "allocs/op": &c.Allocations}
		for i := 2; i+1 < len(fields); i += 2 {
			into, ok := units[fields[i+1]]
			if !ok {
				continue
			}
			var err error
			if *into, err = strconv.ParseFloat(fields[i], 64); err != nil {
				return nil, fmt.Errorf("reading %q: %w", line, err)
			}
		}
		part, _, _ := strings.Cut(strings.TrimPrefix(fields[0], restBenchmark+"/"), "-")
		all[part] = c
	}
	return all, nil
}

// waitingChecks is how many periodic checks wait when somebody changes an object.
const waitingChecks = 10000

// checksQueue is a queue of numbered objects.
type checksQueue interface {
	check(n int)  // adds one for its periodic check
	change(n int) // adds one that somebody has changed
	waiting() int
	next() int // begins a pass, which never ends
}

// passesBeforeAChange counts the passes that begin between a change and its own, while
// many checks wait and all workers work.
func passesBeforeAChange(ctx context.Context, q checksQueue) (n int, err error) {
	for n := range waitingChecks {
		q.check(n)
	}
	settled := func(n int) error {
		const patience, again = time.Minute, time.Millisecond
		return wait.PollUntilContextTimeout(ctx, again, patience, true, func(context.Context) (bool, error) { return q.waiting() == n, nil })
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
		return -1 // which is none that was added
	}
	return n
}

type peerQueue struct {
	priorityqueue.PriorityQueue[int]
}

func newPeerQueue() checksQueue { return peerQueue{priorityqueue.New[int]("bench")} }

func (q peerQueue) check(n int) {
	low := handler.LowPriority // as a resync has it
	q.AddWithOpts(priorityqueue.AddOpts{Priority: &low}, n)
}
func (q peerQueue) change(n int) { q.Add(n) }
func (q peerQueue) waiting() int { return q.Len() }
func (q peerQueue) next() int {
	n, _ := q.Get()
	return n
}
