package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// size has the memory and the requests of a contestant that starts when a number of Apps is at rest.
type size struct {
	Apps int
	// Heap is the live heap when everything is at rest, Steady the resident memory then, and Peak the
	// peak of the resident memory, in bytes.
	Heap, Steady, Peak float64
	// CPU is the CPU time from the start of the process until everything is at rest.
	CPU time.Duration
	// Requests are all requests of the process. They are counted after the process has ended, because the API
	// server counts a watch only when the watch ends.
	Requests requests
}

// populate creates the Apps whose numbers are in [from, to), and lets the floor create their children. A contestant
// then corrects the only field that the floor cannot know: a digest of the configuration, keyed by the UID of the App.
func (l *lab) populate(ctx context.Context, dir string, c contestant, t *tape, from, to int) error {
	if err := l.create(ctx, t.subject, from, to); err != nil {
		return err
	}
	if err := l.play(ctx, t, from, time.Time{}); err != nil {
		return err
	}
	r, err := c.start(dir, l.Kubeconfig())
	if err != nil {
		return err
	}
	defer r.stop()
	return r.idle(ctx)
}

// atRest measures a contestant that starts and finds nothing to do.
func (l *lab) atRest(ctx context.Context, dir string, c contestant, apps int, kubeconfig string) (size, error) {
	s := size{Apps: apps}
	before, err := l.requests(ctx)
	if err != nil {
		return s, err
	}
	r, err := c.start(dir, kubeconfig)
	if err != nil {
		return s, err
	}
	defer r.stop()
	if err := r.idle(ctx); err != nil {
		return s, fmt.Errorf("%s: %w", c.name, err)
	}
	if s.CPU, err = r.cpu(); err != nil {
		return s, err
	}
	if s.Heap, s.Peak, err = r.heap(ctx); err != nil {
		return s, err
	}
	if s.Steady, err = r.memory("VmRSS:"); err != nil {
		return s, err
	}
	r.stop()
	after, err := l.quiet(ctx)
	s.Requests = after.since(before)
	return s, err
}

// idle waits until the process has used almost no CPU time for three seconds.
func (r *running) idle(ctx context.Context) error {
	const while, little = 3 * time.Second, 100 * time.Millisecond
	last := time.Duration(-1)
	for {
		now, err := r.cpu()
		if err != nil {
			return err
		}
		if last >= 0 && now-last < little {
			return nil
		}
		last = now
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.ended:
			return r.failure()
		case <-time.After(while):
		}
	}
}

// restart is a measurement of a contestant that starts after an App was changed.
type restart struct {
	Apps int
	// Took is the time from the start of the process until the Deployment has the change. Before is the
	// number of reconciles of other Apps that begin before the reconcile of the changed App.
	Took   time.Duration
	Before int
}

// restarted changes an App, starts a contestant, and waits until the contestant has applied the change.
func (l *lab) restarted(
	ctx context.Context, dir string, c contestant, apps, turn int, kubeconfig string,
) (restart, error) {
	result := restart{Apps: apps}
	name, namespace := appSubject.name(apps/2), appSubject.namespace(apps/2)
	change := fmt.Appendf(nil, `{"spec":{"image":"registry.example.com/shop:%d-%s"}}`, turn,
		strings.ReplaceAll(c.name, " ", "-"))
	if _, err := l.windlass.WindlassV1alpha1().Apps(namespace).Patch(ctx, name, types.MergePatchType, change,
		metav1.PatchOptions{}); err != nil {
		return result, err
	}
	deployments, err := l.watch(ctx, childTypes[1])
	if err != nil {
		return result, err
	}
	defer deployments.Stop()
	r, err := c.start(dir, kubeconfig, c.verbose)
	if err != nil {
		return result, err
	}
	defer r.stop()
	ctx, cancel := r.living(ctx)
	defer cancel()
	for result.Took == 0 {
		select {
		case <-ctx.Done():
			return result, context.Cause(ctx)
		case e, ok := <-deployments.ResultChan():
			if !ok {
				return result, fmt.Errorf("%s: the watch of Deployments ended", c.name)
			}
			if object, ok := e.Object.(metav1.Object); ok && e.Type == watch.Modified && object.GetName() == name {
				result.Took = time.Since(r.began)
			}
		}
	}
	if err := r.idle(ctx); err != nil {
		return result, err
	}
	text, err := os.ReadFile(r.log)
	if err != nil {
		return result, err
	}
	if result.Before, err = passesBefore(string(text), name); err != nil {
		return result, fmt.Errorf("reading the log %s: %w", r.log, err)
	}
	return result, nil
}

// measureRestarts measures how each contestant handles a change that was made before its start.
func (o *options) measureRestarts(ctx context.Context, apps int) error {
	turns := o.turnsOf(apps, o.rest)
	for turn := range turns {
		for _, c := range o.who {
			r, err := o.lab.restarted(ctx, o.out, c, apps, turn, o.lab.Kubeconfig())
			if err != nil {
				return err
			}
			o.results.Restarts[c.name] = append(o.results.Restarts[c.name], r)
			o.tell("restart %d of %d with %d Apps, %s: change applied after %v and %d other reconciles", turn+1, turns,
				apps, c.name, r.Took.Round(time.Millisecond), r.Before)
		}
	}
	return nil
}
