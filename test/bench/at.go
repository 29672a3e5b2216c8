package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
)

// atSubject are Ats that are due already.
var atSubject = subject{
	of: cnatv1.SchemeGroupVersion.WithResource("ats"), child: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, writes: 3,
	name:   atName,
	create: func(ctx context.Context, l *lab, i int) error { return l.createAt(ctx, i, past) },
}

func atName(i int) string { return fmt.Sprintf("at-%05d", i) }

// past is a time that is over, and never one that does not come.
var past, never = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC)

func (l *lab) createAt(ctx context.Context, i int, due time.Time) error {
	_, err := l.windlass.CnatV1().Ats(namespace(i)).Create(ctx, &cnatv1.At{
		ObjectMeta: metav1.ObjectMeta{Name: atName(i)},
		Spec:       cnatv1.AtSpec{Schedule: due.UTC().Format(time.RFC3339), Command: []string{"true"}},
	}, metav1.CreateOptions{})
	return err
}

// crowd is what becomes of Ats that are due at one instant.
type crowd struct {
	Ats int
	// Last is how long after the instant the last Pod is there.
	Last time.Duration
}

// dueTogether has a contestant wait for an instant at which so many Ats are due. From then
// on another may do its work.
func (l *lab) dueTogether(ctx context.Context, dir string, c contestant, ats int, instead deputy) (crowd, error) {
	result := crowd{Ats: ats}
	late, err := l.waitedFor(ctx, dir, c, ats, 0, func(int) time.Duration { return 0 }, instead)
	for _, after := range late {
		result.Last = max(result.Last, after)
	}
	return result, err
}

// deputy does what a contestant would from an instant on.
type deputy func(ctx context.Context, instant time.Time) error

// lateness is how late the Pods of Ats are that are due one after the other.
type lateness struct {
	Idle int
	// Late are times in the order of the Ats.
	Late []time.Duration
}

// percentile is what so many of a hundred Pods are at most late.
func (l lateness) percentile(p int) time.Duration {
	sorted := slices.Sorted(slices.Values(l.Late))
	return sorted[min(len(sorted)*p/100, len(sorted)-1)]
}

// How many Ats are due one after the other, and how many in a second.
const manyAts, perSecond = 600, 10

// dueInTurn measures it beside so many Ats that are not due.
func (l *lab) dueInTurn(ctx context.Context, dir string, c contestant, idle int) (lateness, error) {
	late, err := l.waitedFor(ctx, dir, c, manyAts, idle, func(i int) time.Duration { return time.Duration(i/perSecond) * time.Second }, nil)
	return lateness{idle, late}, err
}

// createdPerSecond is how many Ats an API server takes in a second at least, while
// somebody says of each that it waits; ahead is how long there is beside that.
const createdPerSecond, ahead = 60, 10 * time.Second

// waitedFor has a contestant wait for Ats, beside some that are not due, and returns how
// late their Pods are. in is when, after the first, each is due. With a deputy the
// contestant is gone by then.
func (l *lab) waitedFor(ctx context.Context, dir string, c contestant, ats, idle int, in func(i int) time.Duration, instead deputy) ([]time.Duration, error) {
	if err := l.wipe(ctx); err != nil {
		return nil, err
	}
	waiting := atSubject
	waiting.create = func(ctx context.Context, l *lab, i int) error { return l.createAt(ctx, i, never) }
	if err := l.create(ctx, waiting, ats, ats+idle); err != nil {
		return nil, err
	}
	r, err := c.start(dir, l.Kubeconfig())
	if err != nil {
		return nil, err
	}
	defer r.stop()
	living, cancel := r.living(ctx)
	defer cancel()
	if err := r.idle(living); err != nil {
		return nil, err
	}
	pods, err := l.watch(ctx, atSubject.child)
	if err != nil {
		return nil, err
	}
	defer pods.Stop()
	first := time.Now().Add(ahead + time.Duration(ats)*time.Second/createdPerSecond).Truncate(time.Second)
	due := func(i int) time.Time { return first.Add(in(i)) }
	waiting.create = func(ctx context.Context, l *lab, i int) error { return l.createAt(ctx, i, due(i)) }
	if err := l.create(ctx, waiting, 0, ats); err != nil {
		return nil, err
	}
	if err := r.idle(living); err != nil {
		return nil, err
	}
	if late := time.Since(first); late > 0 {
		return nil, fmt.Errorf("%d Ats were there %v after the first of them was due: this machine is too slow", ats, late)
	}
	if instead == nil {
		return lateOf(living, pods, ats, due)
	}
	r.stop()
	return lateByDeputy(ctx, pods, ats, due, instead)
}

// lateByDeputy is lateOf while a deputy works.
func lateByDeputy(ctx context.Context, pods watch.Interface, ats int, due func(i int) time.Time, instead deputy) ([]time.Duration, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var working sync.WaitGroup
	working.Go(func() {
		if err := instead(ctx, due(0)); err != nil {
			cancel(err)
		}
	})
	late, err := lateOf(ctx, pods, ats, due)
	working.Wait() // for events, which come after what they tell of
	if err == nil {
		err = context.Cause(ctx)
	}
	return late, err
}

// lateOf is how long after it was due the Pod of each At came.
func lateOf(ctx context.Context, pods watch.Interface, ats int, due func(i int) time.Time) ([]time.Duration, error) {
	number := map[string]int{}
	for i := range ats {
		number[atName(i)+"-pod"] = i
	}
	late := make([]time.Duration, ats)
	for len(number) > 0 {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case e, ok := <-pods.ResultChan():
			if !ok {
				return nil, fmt.Errorf("a watch has ended when %d Pods were missing", len(number))
			}
			if e.Type == watch.Error {
				return nil, fmt.Errorf("watching Pods: %v", e.Object)
			}
			object, isObject := e.Object.(metav1.Object)
			if !isObject || e.Type != watch.Added {
				continue
			}
			if i, isDue := number[object.GetName()]; isDue {
				late[i] = time.Since(due(i))
				delete(number, object.GetName())
			}
		}
	}
	return late, nil
}
