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

// atSubject is the kind At. The scheduled times of the Ats are in the past.
var atSubject = subject{
	of: cnatv1.SchemeGroupVersion.WithResource("ats"), child: schema.GroupVersionResource{
		Version: "v1", Resource: "pods",
	}, writes: 3,
	name: atName, namespace: namespace,
	create: func(ctx context.Context, l *lab, i int) error { return l.createAt(ctx, i, past) },
}

func atName(i int) string { return fmt.Sprintf("at-%05d", i) }

// past is before every run of the benchmark, and never is after every run.
var past, never = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC)

func (l *lab) createAt(ctx context.Context, i int, due time.Time) error {
	_, err := l.windlass.CnatV1().Ats(namespace(i)).Create(ctx, &cnatv1.At{
		ObjectMeta: metav1.ObjectMeta{Name: atName(i)},
		Spec:       cnatv1.AtSpec{Schedule: due.UTC().Format(time.RFC3339), Command: []string{"true"}},
	}, metav1.CreateOptions{})
	return err
}

// crowd is a measurement with Ats that are due at the same instant.
type crowd struct {
	Ats int
	// Last is the time from the scheduled instant until the last Pod exists.
	Last time.Duration
}

// dueTogether measures a contestant with Ats that are all due at the same instant. If instead is not nil, it replaces
// the contestant from that instant on.
func (l *lab) dueTogether(ctx context.Context, dir string, c contestant, ats int, instead deputy) (crowd, error) {
	result := crowd{Ats: ats}
	late, err := l.waitedFor(ctx, dir, c, ats, 0, func(int) time.Duration { return 0 }, instead)
	for _, after := range late {
		result.Last = max(result.Last, after)
	}
	return result, err
}

// deputy does the work of a contestant from an instant on.
type deputy func(ctx context.Context, instant time.Time) error

// lateness has the delays of the Pods of Ats that are due one after the other.
type lateness struct {
	// Idle is the number of Ats that are not due. Late are the delays, in the order of the Ats.
	Idle int
	Late []time.Duration
}

// percentile returns the p-th percentile of the delays.
func (l lateness) percentile(p int) time.Duration {
	sorted := slices.Sorted(slices.Values(l.Late))
	return sorted[min(len(sorted)*p/100, len(sorted)-1)]
}

// manyAts is the number of Ats that are due one after the other, and perSecond is the number of Ats that are due in
// each second.
const manyAts, perSecond = 600, 10

// dueInTurn measures the lateness of a contestant that also has idle Ats, which are not due.
func (l *lab) dueInTurn(ctx context.Context, dir string, c contestant, idle int) (lateness, error) {
	late, err := l.waitedFor(ctx, dir, c, manyAts, idle, func(i int) time.Duration {
		return time.Duration(i/perSecond) * time.Second
	}, nil)
	return lateness{idle, late}, err
}

// createdPerSecond is the minimum number of Ats that can be created in a second, while a contestant writes
// their statuses. ahead is additional time before the first At is due.
const createdPerSecond, ahead = 60, 10 * time.Second

// waitedFor creates Ats for a contestant, in addition to idle Ats that are not due, and returns the delays of
// their Pods. in returns the time from the first scheduled time to the scheduled time of At i. If there is a
// deputy, the contestant is stopped before the first At is due, and the deputy takes its place.
func (l *lab) waitedFor(
	ctx context.Context, dir string, c contestant, ats, idle int, in func(i int) time.Duration, instead deputy,
) ([]time.Duration, error) {
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
		return nil, fmt.Errorf("%d Ats existed only %v after the first of them was due: this machine is too slow", ats, late)
	}
	if instead == nil {
		return lateOf(living, pods, ats, due)
	}
	r.stop()
	return lateByDeputy(ctx, pods, ats, due, instead)
}

// lateByDeputy returns the result of lateOf while a deputy works.
func lateByDeputy(
	ctx context.Context, pods watch.Interface, ats int, due func(i int) time.Time, instead deputy,
) ([]time.Duration, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var working sync.WaitGroup
	working.Go(func() {
		if err := instead(ctx, due(0)); err != nil {
			cancel(err)
		}
	})
	late, err := lateOf(ctx, pods, ats, due)
	working.Wait() // the deputy sends Events after the Pods
	if err == nil {
		err = context.Cause(ctx)
	}
	return late, err
}

// lateOf returns, for each At, the delay from its scheduled time to the creation of its Pod.
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
				return nil, fmt.Errorf("the watch of Pods ended when %d Pods were missing", len(number))
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
