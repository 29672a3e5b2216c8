package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"windlass.dev/windlass/cmd/controller/operator"
	"windlass.dev/windlass/pkg/postgresql"
)

// process is the operator: all kinds, as shipped, with an HTTP transport that lies.
type process struct {
	run    *run
	number int
	// view is the version as of which lists are answered. Unless it is newestVersion,
	// nothing is delivered.
	view atomic.Uint64

	// While the process stands still nothing that it does reaches anybody, and what it
	// knows is from before until its end.
	still, deaf atomic.Bool

	cancel context.CancelFunc
	ended  sync.WaitGroup

	mu      sync.Mutex
	dead    bool
	streams []*stream
}

// workers is how many objects of a kind a process works on at once.
const workers = 2

var errDead = errors.New("the process has died")

// start starts a process that is served lists as of a version.
func (r *run) start(view uint64) (*process, error) {
	r.started++
	p := &process{run: r, number: r.started}
	p.view.Store(view)
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logr.New(&sink{run: r, process: p})))
	p.cancel = cancel
	clients, err := operator.NewClients(&rest.Config{Host: "http://faults", Transport: p, QPS: -1})
	if err != nil {
		return nil, err
	}
	caches := operator.NewCaches(clients, "")
	here, err := postgresql.ParseAllowedHosts([]string{"127.0.0.1"})
	if err != nil {
		return nil, err
	}
	kinds, err := operator.Kinds(ctx, caches, nowhere{}, operator.Options{
		Clock: r.clock, ExternalDatabases: postgresql.Options{Allowed: here, Workers: workers},
	})
	if err != nil {
		return nil, err
	}
	p.ended.Go(func() {
		caches.Start(ctx.Done())
		<-ctx.Done()
		caches.Shutdown()
	})
	for _, c := range kinds.All {
		p.ended.Go(func() {
			if err := c.Run(ctx, workers); err != nil && ctx.Err() == nil {
				r.violate("controller %s ended: %v", c.Name(), err)
			}
		})
	}
	r.processes = append(r.processes, p)
	r.newest.Store(p)
	return p, nil
}

// kill has nothing that the process does reach anybody from now on. It may be called
// outside of the bubble.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = true
}

// die is kill, inside of the bubble.
func (p *process) die() {
	p.kill()
	p.run.sql.cutAll()
	p.run.wake()
}

func (p *process) isDead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

// end returns when nothing of a process is left.
func (p *process) end() {
	p.kill()
	p.run.sql.cutAll()
	p.cancel()
	for _, s := range p.watches() {
		_ = s.pipe.CloseWithError(errDead)
	}
	p.ended.Wait()
}

// open has a stream take part, and drop ends that.
func (p *process) open(s *stream) {
	p.mu.Lock()
	p.streams = append(p.streams, s)
	dead := p.dead
	p.mu.Unlock()
	if dead {
		_ = s.pipe.CloseWithError(errDead)
	}
	p.run.wake()
}

func (p *process) drop(s *stream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.streams = slices.DeleteFunc(p.streams, func(other *stream) bool { return other == s })
	_ = s.pipe.Close()
}

func (p *process) watches() []*stream {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.streams)
}

// RoundTrip implements http.RoundTripper.
func (p *process) RoundTrip(request *http.Request) (*http.Response, error) {
	if p.isDead() || p.still.Load() {
		return nil, errDead
	}
	t := parse(request.URL.Path)
	if t.resource < 0 {
		return nil, fmt.Errorf("nobody expects a request for %s", request.URL)
	}
	if request.Method == http.MethodGet && t.name == "" {
		w, err := wanted(request, t.resource)
		if err != nil {
			return nil, err
		}
		if query := request.URL.Query(); query.Has("watch") {
			return p.watch(w, query)
		}
		return p.list(w)
	}
	var body []byte
	if request.Body != nil {
		var err error
		if body, err = io.ReadAll(request.Body); err != nil {
			return nil, err
		}
		_ = request.Body.Close()
	}
	asked := &asked{
		process: p, target: t, method: request.Method, query: request.URL.RawQuery,
		contentType: request.Header.Get("Content-Type"), body: body, pass: passOf(request.Context()),
	}
	answer := p.run.answer(asked)
	if p.isDead() {
		return nil, errDead
	}
	if answer.err != nil {
		return nil, answer.err
	}
	r := response(answer.status, answer.body)
	if after := answer.header.Get("Retry-After"); after != "" {
		r.Header.Set("Retry-After", after)
	}
	return r, nil
}
