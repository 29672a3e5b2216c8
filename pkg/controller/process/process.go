// Package process runs controllers in a process that may have several replicas: it fills the caches,
// elects a leader, serves the endpoints, and shuts down in order.
package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"

	"windlass.dev/windlass/pkg/controller"
)

// reconcilesTimeout is how long reconciles in flight may take to end.
const reconcilesTimeout = 20 * time.Second

// Options say what a process runs.
type Options struct {
	// Instance is the operator for all objects. Its Events are required, except with shards. Its caches are started at
	// once, so that a standby can take over without delay. The process waits for the caches of Warm before it acquires a
	// Lease and becomes ready.
	Instance
	// Workers is the number of workers of each controller. It is required.
	Workers int
	// Leases are the Leases that the process must hold before its workers start, in the order in which it
	// acquires them. Without Leases, the workers start once the caches of Warm have synced.
	Leases []Lease
	// Sharding, if it has more than one shard, runs an instance of the operator for each shard that this process works on,
	// in place of Instance. Sharding requires Leases. The process that holds all Leases leads.
	Sharding *Sharding
	// Fence, if it is set, rejects writes unless this process may act: see Fence.Wrap.
	Fence *Fence
	// BindAddress is the HOST:PORT of /healthz and /readyz, which are served by HTTP to everyone. Empty means none.
	BindAddress string
	// Metrics says how /metrics is served.
	Metrics Metrics
	// Ready, if it is set, returns an error while the process is not ready. /readyz calls Ready only after the caches have
	// synced or, with shards, after this process has begun to share the work with other replicas.
	Ready func() error
	// Serve, if it is set, runs beside the controllers, in every replica. If it returns an error, Run
	// returns that error.
	Serve func(ctx context.Context) error
	// Lead, if it is set, is called when the process holds all Leases. Without shards, the workers start after it.
	Lead func()
}

// Caches are informers, such as those of a generated SharedInformerFactory.
type Caches interface {
	Start(stop <-chan struct{})
}

// Run runs the process until ctx ends. It then waits for the reconciles in flight, writes the waiting Events, releases
// the Leases, waits for Serve, and closes the endpoints, in this order. With shards, the Lease of each shard is
// released when the reconciles of this shard have ended. Run returns an error at once if it loses a Lease, if the
// coordination with other replicas, Serve or the endpoints fail, or if reconciles do not end within 20 s. The caller
// must then exit, because reconciles may still be in flight.
//
// Three contexts end one after the other:
//
//	ctx      with the signal: the workers take no more keys, and Serve ends
//	leading  when the reconciles in flight and the Events have ended: the Leases are released. If Run fails, leading ends
//	         with errAbandoned: the Leases are not released
//	lasting  when the Leases are released: the caches and the endpoints end
func Run(ctx context.Context, o Options) error {
	if o.Workers < 1 {
		return fmt.Errorf("the number of workers must be at least 1, not %d", o.Workers)
	}
	sharded := o.Sharding != nil && o.Sharding.Shards > 1
	if o.Events == nil && !sharded {
		return errors.New("the operator has a bug: process.Options.Events is required")
	}
	if sharded && len(o.Leases) == 0 {
		return errors.New("the operator has a bug: process.Options.Leases are required with shards")
	}
	lasting, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	p := &process{Options: o, ctx: ctx, failed: make(chan error, 4)}
	warm := newWarmUp(o.Instance)
	elections := newElections(o.Leases, sharded)
	prepared := warm.check
	if sharded {
		prepared = p.checkPart
	}
	stopped, err := p.listen(lasting, health(elections.check, func() error {
		if err := prepared(); err != nil || o.Ready == nil {
			return err
		}
		return o.Ready()
	}, p.current))
	if err != nil {
		return err
	}
	p.startServe()
	for _, caches := range o.Caches {
		caches.Start(lasting.Done())
	}
	err = p.live(func(leading context.Context) error {
		if sharded {
			return p.coordinate(leading, elections)
		}
		if !warm.wait(leading) {
			return nil
		}
		return p.lead(leading, elections)
	})
	if err != nil {
		return err // without waiting, because another process may lead by now
	}
	end()
	for _, server := range stopped {
		<-server
	}
	return nil
}

// process has the state of Run.
type process struct {
	Options
	ctx       context.Context // ctx of Run
	failed    chan error      // errors of servers that ended before ctx
	working   sync.WaitGroup
	serving   sync.WaitGroup
	takesPart atomic.Bool // with shards, whether this process has confirmed a layout, or waits for another installation

	mu        sync.Mutex
	instances []*runningInstance // of the shards that this process works on
}

// current returns the controllers that run in this process.
func (p *process) current() []*controller.Controller {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.Controllers
	for _, i := range p.instances {
		all = append(all[:len(all):len(all)], i.Controllers...)
	}
	return all
}

// listen starts the servers of the endpoints. The servers run until ctx ends. After its shutdown, each server closes
// its channel in stopped.
func (p *process) listen(ctx context.Context, endpoints *http.ServeMux) (stopped []<-chan struct{}, err error) {
	if p.BindAddress != "" {
		if p.Metrics.Plain {
			p.Metrics.addTo(endpoints, unprotected, p.current)
		}
		server, err := serve(ctx, p.BindAddress, endpoints, nil, p.failed)
		if err != nil {
			return nil, err
		}
		stopped = append(stopped, server)
	}
	if p.Metrics.Address == "" {
		return stopped, nil
	}
	protected, certificates := p.Metrics.secure(p.current)
	server, err := serve(ctx, p.Metrics.Address, protected, certificates, p.failed)
	return append(stopped, server), err
}

// live runs compete, which competes for the Leases, and starts the workers when this process leads. When the signal
// comes, live waits for the reconciles in flight and for the Events. It then ends the context of compete, so that
// compete releases the Leases. If compete or a server fails, live returns at once.
func (p *process) live(compete func(context.Context) error) error {
	logger := klog.FromContext(p.ctx)
	leading, release := context.WithCancelCause(context.WithoutCancel(p.ctx))
	defer release(errAbandoned)
	flush := record(leading, p.Events)

	lost := make(chan error, 1)
	go func() { lost <- compete(leading) }()
	select {
	case err := <-p.failed:
		return err
	case err := <-lost:
		return err
	case <-p.ctx.Done():
	}
	logger.Info("Stopping: waiting for the reconciles in flight")
	select {
	case err := <-lost:
		return cmp.Or(err, errLeaseLost)
	case <-done(&p.working):
	case <-time.After(reconcilesTimeout):
		return fmt.Errorf("waiting for the reconciles in flight timed out after %v; Leases that this process holds "+
			"are not released, but expire", reconcilesTimeout)
	}
	flush()
	release(nil)
	err := <-lost
	p.serving.Wait()
	logger.Info("Stopped gracefully")
	return err
}

// lead runs the workers once this process holds the Leases, or at once if there are no Leases. Before the workers
// start, lead ends the work of other replicas on shards.
func (p *process) lead(ctx context.Context, elections elections) error {
	for _, e := range elections {
		p.Fence.guard(e.term)
	}
	last := len(elections) - 1
	shared := p.Sharding != nil && last >= 0 // other replicas may still work on shards
	if shared {
		// Until endSharding returns, no other installation may work, not even after the end of this process.
		elections[last].keep.Store(true)
	}
	begin := func() {
		if shared {
			if !endSharding(ctx, p.Leases[0]) {
				return
			}
			elections[last].keep.Store(false)
		}
		if p.Lead != nil {
			p.Lead()
		}
		p.startWorkers()
	}
	if len(elections) > 0 {
		return elect(ctx, elections, begin)
	}
	begin()
	<-ctx.Done()
	return nil
}

// startWorkers starts the workers of all controllers. The workers run until the signal comes.
func (p *process) startWorkers() {
	p.working.Go(func() { runWorkers(p.ctx, p.Controllers, p.Workers) })
}

// startServe runs Options.Serve in the background, if it is set, with a context that ends with the signal.
func (p *process) startServe() {
	if p.Serve == nil {
		return
	}
	p.serving.Go(func() {
		if err := p.Serve(p.ctx); err != nil {
			p.failed <- err
		}
	})
}

// done returns a channel that is closed when the counter of group is zero.
func done(group *sync.WaitGroup) <-chan struct{} {
	closed := make(chan struct{})
	go func() { group.Wait(); close(closed) }()
	return closed
}
