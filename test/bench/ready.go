package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
)

// readyApps is the number of Apps whose time until Ready is measured.
const readyApps = 100

// podComponents are the components that make Pods ready. A lab runs without these components.
var podComponents = []string{"kube-controller-manager", "kube-scheduler", "kwok"}

// readiness holds the times from the creation of each App until the App is Ready.
type readiness struct {
	Probe bool // whether the Apps have a readiness probe
	Took  []time.Duration
}

// measureReady measures the time until Apps with and without a readiness probe are Ready. Pods of the simulated node
// are ready at once.
func (o *options) measureReady(ctx context.Context) (err error) {
	for _, component := range podComponents {
		if err := o.lab.StartComponent(component); err != nil {
			return err
		}
		defer func() {
			if stopped := o.lab.Stop(component); err == nil {
				err = stopped
			}
		}()
	}
	o.results.Ready = map[string][]readiness{}
	for _, c := range o.who {
		if c.name != names[0] && c.name != peerName {
			continue
		}
		for _, probe := range []bool{true, false} {
			r := readiness{Probe: probe}
			if r.Took, err = o.lab.untilReady(ctx, o.out, c, probe); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			o.results.Ready[c.name] = append(o.results.Ready[c.name], r)
			middle := r.Took[len(r.Took)/2].Round(time.Millisecond)
			o.tell("%d Apps, readiness probe %v, %s: Ready after %v", readyApps, probe, c.name, middle)
		}
	}
	return o.lab.wipe(ctx)
}

// untilReady creates Apps while a contestant runs, and returns the times until they are Ready, the shortest first.
func (l *lab) untilReady(ctx context.Context, dir string, c contestant, probe bool) ([]time.Duration, error) {
	if err := l.wipe(ctx); err != nil {
		return nil, err
	}
	r, err := c.start(dir, l.Kubeconfig())
	if err != nil {
		return nil, err
	}
	defer r.stop()
	ctx, cancel := r.living(ctx)
	defer cancel()
	all := make([]time.Duration, readyApps)
	err = l.each(ctx, readyApps, func(ctx context.Context, i int) (err error) {
		all[i], err = l.readyAfter(ctx, i, probe)
		return err
	})
	slices.Sort(all)
	return all, err
}

// readyAfter creates the App with number i, and returns the time until it is Ready.
func (l *lab) readyAfter(ctx context.Context, i int, probe bool) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	apps := l.windlass.WindlassV1alpha1().Apps(namespace(i))
	wanted := app(i)
	if !probe {
		wanted.Spec.Probe = nil
	}
	created, err := apps.Create(ctx, wanted, metav1.CreateOptions{})
	if err != nil {
		return 0, err
	}
	began := time.Now()
	changes, err := apps.Watch(ctx, metav1.ListOptions{
		FieldSelector: "metadata.name=" + created.Name, ResourceVersion: created.ResourceVersion,
	})
	if err != nil {
		return 0, err
	}
	defer changes.Stop()
	for {
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("waiting for App %s to be Ready: %w", created.Name, context.Cause(ctx))
		case e, ok := <-changes.ResultChan():
			if !ok {
				return 0, fmt.Errorf("the watch ended before App %s was Ready", created.Name)
			}
			if changed, is := e.Object.(*v1alpha1.App); is && meta.IsStatusConditionTrue(changed.Status.Conditions, "Ready") {
				return time.Since(began), nil
			}
		}
	}
}

// readyTable returns a table of the median times until Apps are Ready, in seconds.
func (r *results) readyTable() string {
	rows := [][]string{{"", "with a readiness probe (s)", "without (s)"}}
	for _, name := range names {
		row := []string{name}
		for _, probe := range []bool{true, false} {
			for _, measured := range r.Ready[name] {
				if measured.Probe == probe {
					row = append(row, fmt.Sprintf("%.1f", measured.Took[len(measured.Took)/2].Seconds()))
				}
			}
		}
		if len(row) == len(rows[0]) {
			rows = append(rows, row)
		}
	}
	return table(rows...)
}
