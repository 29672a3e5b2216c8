package main

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// turn is the cost of creating the children of some Apps and writing their statuses.
type turn struct {
	Apps int
	// Took is the time from the first child to the last status.
	Took time.Duration
	// CPU is the CPU time of the contestant, and Server the CPU time of the API server meanwhile.
	CPU, Server time.Duration
	Requests    requests
	// Heap is the live heap at the end, and Peak the peak of the resident memory, in bytes.
	Heap, Peak float64
}

// see measures a contestant that starts when the given number of objects exist.
func (l *lab) see(
	ctx context.Context, s subject, dir string, c contestant, objects int, kubeconfig string,
) (turn, error) {
	var t turn
	err := l.timed(ctx, &t, s, objects, func(ctx context.Context, finished func(context.Context) error) error {
		r, err := c.start(dir, kubeconfig)
		if err != nil {
			return err
		}
		defer r.stop()
		ctx, cancel := r.living(ctx)
		defer cancel()
		if err := finished(ctx); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		if t.CPU, err = r.cpu(); err != nil {
			return err
		}
		t.Heap, t.Peak, err = r.heap(ctx)
		return err
	})
	return t, err
}

// timed creates some objects, and measures how a contestant reconciles them. It calls compete, which runs the
// contestant. compete calls finished, which waits until all objects have a status.
func (l *lab) timed(
	ctx context.Context, t *turn, s subject, objects int, compete func(
		ctx context.Context, finished func(context.Context) error,
	) error,
) error {
	if err := l.wipe(ctx); err != nil {
		return err
	}
	if err := l.create(ctx, s, 0, objects); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, tooLong)
	defer cancel()
	children, err := l.watch(ctx, s.child)
	if err != nil {
		return err
	}
	defer children.Stop()
	statuses, err := l.watch(ctx, s.of)
	if err != nil {
		return err
	}
	defer statuses.Stop()
	before, err := l.requests(ctx)
	if err != nil {
		return err
	}
	used, err := l.serverCPU(ctx)
	if err != nil {
		return err
	}
	t.Apps = objects
	begun := make(chan time.Time, 1)
	go func() {
		<-children.ResultChan()
		begun <- time.Now()
		children.Stop()
	}()
	return compete(ctx, func(ctx context.Context) error {
		if err := all(ctx, statuses, objects); err != nil {
			return err
		}
		t.Took = time.Since(<-begun)
		after, err := l.quiet(ctx)
		if err != nil {
			return err
		}
		t.Requests = after.since(before)
		t.Server, err = l.serverCPU(ctx)
		t.Server -= used
		return err
	})
}

// tooLong is the timeout of a turn.
const tooLong = 30 * time.Minute

// watch returns a watch for the events from now on. It watches again when the API server ends the watch.
func (l *lab) watch(ctx context.Context, of schema.GroupVersionResource) (watch.Interface, error) {
	list, err := l.metadata.Resource(of).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, err
	}
	return watchtools.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return l.metadata.Resource(of).Watch(ctx, options)
		},
	})
}

// all waits until the given number of objects have changed. Nothing but their statuses changes.
func all(ctx context.Context, changes watch.Interface, objects int) error {
	changed := map[string]bool{}
	for len(changed) < objects {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d objects have a status: %w", len(changed), objects, context.Cause(ctx))
		case e, ok := <-changes.ResultChan():
			if !ok {
				return fmt.Errorf("the watch ended when %d of %d objects had a status", len(changed), objects)
			}
			if object, ok := e.Object.(metav1.Object); ok && e.Type == watch.Modified {
				changed[object.GetNamespace()+"/"+object.GetName()] = true
			}
		}
	}
	return nil
}

// quiet waits until no client writes any more, and returns the requests that the API server has counted.
// Contestants write an Event after the change that the Event reports.
func (l *lab) quiet(ctx context.Context) (requests, error) {
	const enough = 2 * time.Second
	last, err := l.requests(ctx)
	for err == nil {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(enough):
		}
		var next requests
		if next, err = l.requests(ctx); err == nil && next.changes() == last.changes() {
			return next, nil
		}
		last = next
	}
	return nil, err
}
