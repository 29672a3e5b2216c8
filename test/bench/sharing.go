package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
)

// The replicas share the namespaces of the tenants. Half of all Apps are in the crowded namespaces.
const (
	tenants, crowded = 200, 10
	sharers, shards  = 4, 12
	// burst is the distance between changed Apps: every seventh App changes. Because burst has no factor in common with
	// the numbers of namespaces, Apps in all namespaces change.
	burst = 7
	// pace is the time between two changes. It is long enough that two cores are sometimes idle. On a busy machine,
	// several replicas would slow each other down, and their CPU time would increase.
	pace = 20 * time.Millisecond
)

// tenant returns the namespace of the App with number i.
func tenant(i int) string {
	n := i / 2 % crowded * (tenants / crowded)
	if i%2 == 1 {
		n = i / 2 % (tenants - crowded)
		n += n/(tenants/crowded-1) + 1 // skips the crowded namespaces
	}
	return fmt.Sprintf("tenant-%03d", n)
}

// measureSharing measures replicas that share the Apps, and a single replica. The replicas have an API server of their
// own, because measureSharing changes the features of this API server.
func (o *options) measureSharing(ctx context.Context) error {
	o.results.Sharings = slices.DeleteFunc(o.results.Sharings, func(s sharing) bool {
		return slices.Contains(o.features, s.Served) && slices.Contains(o.shared, s.Apps)
	})
	dir, err := os.MkdirTemp("", "bench-sharing")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	l, err := newLab(ctx, dir)
	if err != nil {
		return err
	}
	defer l.Close()
	if err := l.createNamespaces(ctx, tenants, func(i int) string { return fmt.Sprintf("tenant-%03d", i) }); err != nil {
		return err
	}
	recorded, err := l.record(ctx, appsIn(tenant), o.out, o.who[0])
	if err != nil {
		return err
	}
	there := 1 // the App on the tape
	for _, apps := range o.shared {
		if err := l.populate(ctx, o.out, o.who[0], recorded, there, apps); err != nil {
			return err
		}
		there = apps
		for _, served := range o.features {
			if err := l.serveShards(served); err != nil {
				return err
			}
			for turn := range o.turns {
				if err := o.takeTurn(ctx, l, dir, sharing{Apps: apps, Served: served, Turn: turn}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// takeTurn measures a single replica, and then several replicas. In every second turn, the order is reversed.
func (o *options) takeTurn(ctx context.Context, l *lab, dir string, s sharing) error {
	order := []int{1, sharers}
	if s.Turn%2 == 1 {
		slices.Reverse(order)
	}
	for _, replicas := range order {
		s.Replicas = make([]sharer, replicas)
		if err := l.share(ctx, dir, o.out, o.who[0], &s); err != nil {
			return err
		}
		o.results.Sharings = append(o.results.Sharings, s)
		o.tell("turn %d of %d, %d Apps, %d replicas, API server with shards: %v: CPU time %v, CPU time of the "+
			"API server %v", s.Turn+1, o.turns, s.Apps,
			replicas, s.Served, time.Duration(s.sum(cpuTimeOf)*float64(time.Second)), s.Server.Round(time.Millisecond))
	}
	return nil
}

// serveShards restarts the API server with or without the feature ShardedListAndWatch.
func (l *lab) serveShards(serve bool) error {
	if err := l.Stop("kube-apiserver"); err != nil {
		return err
	}
	return l.StartComponent("kube-apiserver", fmt.Sprintf("--feature-gates=ShardedListAndWatch=%v", serve))
}

// member is a replica, and the gateway through which it sends its requests.
type member struct {
	*running
	*gateway
	watched, sent atomic.Int64
}

// join starts a replica with its files in dir.
func (l *lab) join(dir, out string, c contestant, flags ...string) (*member, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	m := &member{}
	var err error
	sent := func(*http.Request, []byte) { m.sent.Add(1) }
	m.gateway, err = openGateway(dir, l.config, sent, func(r *http.Request, n int) {
		if r.URL.Query().Get("watch") != "" {
			m.watched.Add(int64(n))
		}
	})
	if err != nil {
		return nil, err
	}
	c.name += " " + filepath.Base(dir)
	if m.running, err = c.start(out, m.kubeconfig, flags...); err != nil {
		m.close()
	}
	return m, err
}

// leave ends a replica.
func (m *member) leave() {
	m.stop()
	m.close()
}

// share measures replicas during a burst of changes.
func (l *lab) share(ctx context.Context, dir, out string, c contestant, s *sharing) error {
	replicas := len(s.Replicas)
	flags := []string{"--leader-elect", "--leader-election-namespace=" + namespace(0)}
	if replicas > 1 {
		flags = append(flags, fmt.Sprintf("--shards=%d", shards))
	}
	var members []*member
	defer func() {
		for _, m := range members {
			m.leave()
		}
	}()
	for i := range replicas {
		m, err := l.join(filepath.Join(dir, fmt.Sprintf("replica-%d", i)), out, c, flags...)
		if err != nil {
			return err
		}
		members = append(members, m)
	}
	if err := allWork(ctx, members); err != nil {
		return err
	}
	if err := allIdle(ctx, members); err != nil {
		return err
	}
	return l.burst(ctx, s, members)
}

// allWork waits until each replica works. A single replica works on all objects. Several replicas work on the same
// number of shards each.
func allWork(ctx context.Context, members []*member) error {
	return wait.PollUntilContextTimeout(ctx, time.Second, tooLong, true, func(ctx context.Context) (bool, error) {
		for _, m := range members {
			text, err := m.get(ctx, "/metrics")
			if err != nil {
				return false, nil // the replica has just started
			}
			if len(members) == 1 {
				return strings.Contains(text, "\nwindlass_objects{"), nil // only a replica that reconciles has this metric
			}
			held, err := lineOf(text, "windlass_shards_held ")
			if err != nil || held != shards/sharers {
				return false, nil
			}
		}
		return true, nil
	})
}

// allIdle waits until all members are idle. It waits for them concurrently.
func allIdle(ctx context.Context, members []*member) error {
	errs := make([]error, len(members))
	var waits sync.WaitGroup
	for i, m := range members {
		waits.Go(func() { errs[i] = m.idle(ctx) })
	}
	waits.Wait()
	return errors.Join(errs...)
}

// burst changes Apps, and measures the cost for the replicas.
func (l *lab) burst(ctx context.Context, s *sharing, members []*member) error {
	if s.Turn == 0 {
		if err := measureAtRest(ctx, s, members); err != nil {
			return err
		}
	}
	before, err := l.requests(ctx)
	if err != nil {
		return err
	}
	if s.Server, err = l.serverCPU(ctx); err != nil {
		return err
	}
	for i, m := range members {
		used, err := m.cpu()
		if err != nil {
			return err
		}
		s.Replicas[i].CPU, s.Replicas[i].Watched = -used, -float64(m.watched.Load())
	}
	if err := l.changeApps(ctx, s.Apps); err != nil {
		return err
	}
	after, err := l.quiet(ctx)
	if err != nil {
		return err
	}
	if err := allIdle(ctx, members); err != nil {
		return err
	}
	s.Requests = after.since(before)
	used, err := l.serverCPU(ctx)
	if err != nil {
		return err
	}
	s.Server = used - s.Server
	for i, m := range members {
		r := &s.Replicas[i]
		used, err := m.cpu()
		if err != nil {
			return err
		}
		r.CPU, r.Watched = r.CPU+used, r.Watched+float64(m.watched.Load())
		if r.Heap, _, err = m.heap(ctx); err != nil {
			return err
		}
		if r.Steady, err = m.memory("VmRSS:"); err != nil {
			return err
		}
	}
	return nil
}

// measureAtRest measures the requests and the CPU time of replicas in a minute without changes.
func measureAtRest(ctx context.Context, s *sharing, members []*member) error {
	for i, m := range members {
		used, err := m.cpu()
		if err != nil {
			return err
		}
		s.Replicas[i].RestRequests, s.Replicas[i].RestCPU = -float64(m.sent.Load()), -used
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Minute):
	}
	for i, m := range members {
		used, err := m.cpu()
		if err != nil {
			return err
		}
		r := &s.Replicas[i]
		r.RestRequests, r.RestCPU = r.RestRequests+float64(m.sent.Load()), r.RestCPU+used
	}
	return nil
}

// changeApps changes the image of some Apps.
func (l *lab) changeApps(ctx context.Context, apps int) error {
	change := fmt.Appendf(nil, `{"spec":{"image":"registry.example.com/shop:%d"}}`, time.Now().UnixNano())
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	return l.each(ctx, apps/burst, func(ctx context.Context, i int) error {
		<-ticker.C
		_, err := l.windlass.WindlassV1alpha1().Apps(tenant(i*burst)).Patch(ctx, app(i*burst).Name,
			types.MergePatchType, change, metav1.PatchOptions{})
		return err
	})
}
