package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"windlass.dev/windlass/cmd/controller/operator"
	"windlass.dev/windlass/pkg/postgresql"
	"windlass.dev/windlass/pkg/sharding/sharded"
	"windlass.dev/windlass/pkg/sharding/shards"
)

// process is one process of the operator: all kinds as shipped, with an HTTP transport that injects faults.
type process struct {
	run    *run
	number int
	// snapshot is the version of the lists that the process receives. The process receives events only while snapshot
	// is newestVersion.
	snapshot atomic.Uint64

	// While suspended is set, new requests of the process fail. If noEvents is set, the process receives no events until
	// it ends.
	suspended, noEvents atomic.Bool

	cancel     context.CancelFunc
	goroutines sync.WaitGroup
	retire     context.CancelFunc // ends the workers after the reconciles in flight
	working    sync.WaitGroup     // the workers

	mu      sync.Mutex
	dead    bool
	streams []*stream
}

// workers is the number of objects of a kind that a process reconciles at the same time.
const workers = 2

var errDead = errors.New("the process has died")

// startFirst starts the first process, and the bystander if the operator has shards.
func (r *run) startFirst() (err error) {
	if _, err = r.start(newestVersion); err != nil || !r.scenario.sharded {
		return err
	}
	r.bystander, err = r.startProcess(0, newestVersion, r.shard(false))
	return err
}

// start starts a process for the namespace of the run. Its lists show the state at the version snapshot.
func (r *run) start(snapshot uint64) (*process, error) {
	r.processCount++
	p, err := r.startProcess(r.processCount, snapshot, r.shard(true))
	if err != nil {
		return nil, err
	}
	r.processes = append(r.processes, p)
	r.newestProcess.Store(p)
	return p, nil
}

// shard returns the filter of the shard with the namespace of the run if own is true, and of the other shard otherwise.
// Without shards, it returns the zero filter.
func (r *run) shard(own bool) sharded.Filter {
	if !r.scenario.sharded {
		return sharded.Filter{}
	}
	layout := shards.Layout{Version: 1, Cuts: shards.Balance(nil, 2)}
	shard := layout.ShardOf(r.namespace)
	if !own {
		shard = 1 - shard
	}
	return sharded.NewFilter(layout.Selector(shard), sharded.NewStreams())
}

// startProcess starts a process for a shard.
func (r *run) startProcess(number int, snapshot uint64, shard sharded.Filter) (*process, error) {
	p := &process{run: r, number: number}
	p.snapshot.Store(snapshot)
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logr.New(&logSink{run: r, process: p})))
	p.cancel = cancel
	clients, err := operator.NewClients(&rest.Config{Host: "http://faults", Transport: p, QPS: -1}, nil)
	if err != nil {
		return nil, err
	}
	caches := operator.NewCaches(clients, operator.CacheOptions{Shard: shard})
	allowed, err := postgresql.ParseAllowedHosts([]string{"127.0.0.1"})
	if err != nil {
		return nil, err
	}
	options := operator.Options{Clock: r.clock, ExternalDatabases: postgresql.Options{Allowed: allowed, Workers: workers}}
	if r.scenario.hasServers() {
		options.DatabaseConnector = podConnector{p}
	}
	kinds, err := operator.Kinds(ctx, caches, discardEvents{}, options)
	if err != nil {
		return nil, err
	}
	p.goroutines.Go(func() {
		caches.Start(ctx.Done())
		<-ctx.Done()
		caches.Shutdown()
	})
	working, retire := context.WithCancel(ctx)
	p.retire = retire
	for _, c := range kinds.All {
		p.working.Go(func() {
			if err := c.Run(working, workers); err != nil && working.Err() == nil {
				r.addViolation("controller %s ended: %v", c.Name(), err)
			}
		})
	}
	return p, nil
}

// leave ends the process as a replica releases a shard: when the reconciles in flight have ended. leave must be called
// in the bubble.
func (p *process) leave() {
	p.retire()
	p.goroutines.Go(func() {
		p.working.Wait()
		p.die()
	})
}

// markDead makes all requests of the process fail. It may be called outside of the bubble.
func (p *process) markDead() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = true
}

// die makes all requests and SQL connections of the process fail, like a crash. The run then stops the process. die
// must be called in the bubble.
func (p *process) die() {
	p.markDead()
	p.run.sql.cutAll()
	p.run.wake()
}

func (p *process) isDead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

// stop ends the process, and returns when all its goroutines have ended.
func (p *process) stop() {
	p.markDead()
	p.run.sql.cutAll()
	p.cancel()
	for _, s := range p.openStreams() {
		_ = s.pipe.CloseWithError(errDead)
	}
	p.working.Wait()
	p.goroutines.Wait()
}

// addStream adds a stream to the streams that receive events. removeStream removes and closes the stream.
func (p *process) addStream(s *stream) {
	p.mu.Lock()
	p.streams = append(p.streams, s)
	dead := p.dead
	p.mu.Unlock()
	if dead {
		_ = s.pipe.CloseWithError(errDead)
	}
	p.run.wake()
}

func (p *process) removeStream(s *stream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.streams = slices.DeleteFunc(p.streams, func(other *stream) bool { return other == s })
	_ = s.pipe.Close()
}

func (p *process) openStreams() []*stream {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.streams)
}

// RoundTrip implements http.RoundTripper.
func (p *process) RoundTrip(request *http.Request) (*http.Response, error) {
	if p.isDead() || p.suspended.Load() {
		return nil, errDead
	}
	t := parsePath(request.URL.Path)
	if strings.HasPrefix(request.URL.Path, "/apis/"+gatewayv1.GroupName+"/") { // the API server lacks the kinds of routes
		return httpResponse(http.StatusNotFound, []byte("404 page not found\n")), nil
	}
	if t.resource < 0 {
		return nil, fmt.Errorf("unexpected request for %s", request.URL)
	}
	if request.Method == http.MethodGet && t.name == "" {
		sel, err := parseSelection(request, t.resource)
		if err != nil {
			return nil, err
		}
		if query := request.URL.Query(); query.Has("watch") {
			return p.watch(sel, query)
		}
		return p.list(sel)
	}
	var body []byte
	if request.Body != nil {
		var err error
		if body, err = io.ReadAll(request.Body); err != nil {
			return nil, err
		}
		_ = request.Body.Close()
	}
	req := &apiRequest{
		process: p, target: t, method: request.Method, query: request.URL.RawQuery,
		contentType: request.Header.Get("Content-Type"), body: body, reconcileID: reconcileIDOf(request.Context()),
	}
	resp := p.run.handleRequest(req)
	if p.isDead() {
		return nil, errDead
	}
	if resp.err != nil {
		return nil, resp.err
	}
	r := httpResponse(resp.status, resp.body)
	if after := resp.header.Get("Retry-After"); after != "" {
		r.Header.Set("Retry-After", after)
	}
	return r, nil
}
