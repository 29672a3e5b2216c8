package process

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"windlass.dev/windlass/pkg/controller/shards"
)

// Sharding divides the namespaces of a cluster among the replicas of an operator: each replica works on the shards whose
// Leases it holds. See package shards.
type Sharding struct {
	// Shards is the number of shards, from 1 to shards.Max. The holder of the first shard decides.
	Shards int
	// Lease is the Lease of the first shard. The Leases of the other shards and the layout are in its namespace.
	Lease Lease
	// New returns the operator for the namespaces that a selector of object.metadata.namespace matches.
	New func(ctx context.Context, namespaces sharding.Selector) (Instance, error)
	// Weigh returns the number of objects in each namespace.
	Weigh func(ctx context.Context) (map[string]int, error)

	// adjust, if it is set, changes the times of an election. Tests set it, so that a busy machine loses no Lease.
	adjust func(*election)
}

// coordinator decides which shards this replica works on, together with the coordinators of the other replicas.
//
// No object may have two owners. While a shard has a holder, nobody else works on it. While the layout changes, the same
// object may be in two shards. A replica therefore stops all work with the former layout before it confirms the new one,
// and begins to work with the new one when all other holders have confirmed it.
type coordinator struct {
	Sharding
	workers int
	// working ends with the signal that ends the process.
	working  context.Context
	started  func(*instance) // is called when an instance starts
	store    shards.Store
	observer *shards.Observer
	presence *presence
	clock    clock.WithTicker
	// elect takes part in the election for a shard: see election.run.
	elect func(ctx context.Context, shard int, acquired func()) error

	// layout is the layout that this replica works with, or is about to. confirmed says that the API server has stored that.
	layout    shards.Layout
	confirmed bool
	weighed   time.Time
	held      map[int]*holding
	lost      chan error

	mu      sync.Mutex
	stopped bool // no instance may start any more
}

// holding is a shard whose Lease this replica holds, or tries to acquire.
type holding struct {
	acquired atomic.Bool
	// release ends the election, and gives back the Lease.
	release context.CancelFunc
	ended   chan struct{}
	running *instance // nil until this replica works on the shard
}

// run coordinates until ctx ends, and then gives back the Leases unless reconciles are still in flight: see election.run. It
// returns an error if it has lost a Lease, or if reconciles do not end in time. changes has a value when the Leases may have
// changed. The error of an election is in c.lost at once, even while run waits for something.
func (c *coordinator) run(ctx context.Context, changes <-chan struct{}) error {
	present, leave := context.WithCancel(ctx)
	defer leave()
	var renewing sync.WaitGroup
	renewing.Go(func() { c.presence.run(present) })
	ticker := c.clock.NewTicker(retryPeriod)
	defer ticker.Stop()
	for {
		if err := c.step(ctx); err != nil && ctx.Err() == nil { // elections give back their Leases when ctx ends
			return err
		}
		select {
		case <-changes:
		case <-ticker.C():
		case <-ctx.Done():
			for _, h := range c.held {
				<-h.ended
			}
			leave()
			renewing.Wait()
			c.presence.remove(ctx)
			return nil
		}
	}
}

// step brings this replica closer to the shards that it should work on. An error ends the process.
func (c *coordinator) step(ctx context.Context) error {
	// The Leases are read before the layout, because a holder has to use the layout that is stored after it has acquired its
	// Lease.
	asked := c.clock.Now()
	reading, cancel := context.WithTimeout(ctx, renewDeadline)
	defer cancel()
	leases, err := c.presence.leases.List(reading, metav1.ListOptions{LabelSelector: shards.OperatorLabel + "=" + c.Lease.Name})
	if err != nil {
		klog.FromContext(ctx).Error(err, "Cannot list the Leases of the shards")
		return nil
	}
	stored, err := c.store.Read(reading)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Cannot read the layout of the shards")
		return nil
	}
	if stored.Version > c.layout.Version || stored.Version == c.layout.Version && stored.ID() != c.layout.ID() || !c.confirmed {
		return c.adopt(ctx, stored.Layout) // the Leases were read too early for this layout
	}
	view := c.observer.View(pointers(leases.Items), c.layout, asked)
	for shard, h := range c.held {
		if h.running != nil && !view.Holds(c.Lease.Identity, shard) {
			return fmt.Errorf("shard %d: %w", shard, errLeaseLost) // its election may notice it later
		}
	}
	if err := c.give(ctx, view); err != nil {
		return err
	}
	c.take(ctx, view)
	if stored.ID() == c.layout.ID() && stored.Version > 0 {
		c.begin(ctx, view)
	}
	if view.Holds(c.Lease.Identity, 0) {
		c.lead(ctx, stored, max(c.layout.Version, view.Newest()))
	}
	return nil
}

func pointers(leases []coordinationv1.Lease) (all []*coordinationv1.Lease) {
	for i := range leases {
		all = append(all, &leases[i])
	}
	return all
}

// adopt stops all work with the former layout, and confirms the new one. The next step follows at once.
func (c *coordinator) adopt(ctx context.Context, layout shards.Layout) error {
	for _, h := range c.held {
		if h.running != nil {
			h.running.cancel() // so that all end at the same time
		}
	}
	for _, h := range c.held {
		if err := h.pause(); err != nil {
			return err
		}
	}
	if layout.Version >= c.layout.Version {
		c.layout, c.confirmed = layout, false
	}
	if err := c.presence.confirm(ctx, c.layout.ID()); err != nil {
		klog.FromContext(ctx).Error(err, "Cannot confirm the layout of the shards", "layout", c.layout.Version)
		return nil
	}
	c.confirmed = true
	klog.FromContext(ctx).Info("Using a new layout of the shards", "layout", c.layout.Version, "shards", c.layout.Shards())
	return c.step(ctx)
}

// pause stops the work on a shard, whose Lease this replica keeps.
func (h *holding) pause() error {
	if h.running == nil {
		return nil
	}
	err := h.running.stop()
	h.running = nil
	return err
}

// give gives up one shard if another replica should have it, and stops to compete for shards that others have taken.
func (c *coordinator) give(ctx context.Context, view shards.View) error {
	wanted := view.Take(c.Lease.Identity)
	for shard, h := range c.held {
		if !h.acquired.Load() && !slices.Contains(wanted, shard) && !view.Holds(c.Lease.Identity, shard) {
			c.drop(shard)
		}
	}
	shard, ok := view.Give(c.Lease.Identity)
	h := c.held[shard]
	if !ok || h == nil || !h.acquired.Load() {
		return nil
	}
	if err := h.pause(); err != nil {
		return err
	}
	klog.FromContext(ctx).Info("Giving up a shard", "shard", shard)
	c.drop(shard)
	return nil
}

// drop ends the election for a shard, and waits until its Lease is given back.
func (c *coordinator) drop(shard int) {
	h := c.held[shard]
	h.release()
	<-h.ended
	delete(c.held, shard)
}

// take tries to acquire the shards that this replica should have.
func (c *coordinator) take(ctx context.Context, view shards.View) {
	for _, shard := range view.Take(c.Lease.Identity) {
		if c.held[shard] != nil {
			continue
		}
		trying, release := context.WithCancel(ctx)
		h := &holding{release: release, ended: make(chan struct{})}
		c.held[shard] = h
		go func() {
			defer close(h.ended)
			defer release()
			if err := c.elect(trying, shard, func() { h.acquired.Store(true) }); err != nil {
				c.lost <- fmt.Errorf("shard %d: %w", shard, err)
			}
		}()
	}
}

// stop makes sure that no instance starts any more.
func (c *coordinator) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
}

// begin starts to work on the shards that this replica holds. view and the layout were read from the API server after their
// Leases were acquired.
func (c *coordinator) begin(ctx context.Context, view shards.View) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, shard := range slices.Sorted(maps.Keys(c.held)) {
		h := c.held[shard]
		if c.stopped || h.running != nil || !h.acquired.Load() || !view.Holds(c.Lease.Identity, shard) || !view.MayWork(shard) {
			continue
		}
		of, err := c.New(ctx, c.layout.Selector(shard))
		if err != nil {
			klog.FromContext(ctx).Error(err, "Cannot start the operator for a shard", "shard", shard)
			continue
		}
		klog.FromContext(ctx).Info("Working on a shard", "shard", shard, "layout", c.layout.Version)
		h.running = start(c.working, of, c.workers)
		c.started(h.running)
	}
}

// weighInterval is how often the holder of the first shard checks whether the layout fits the namespaces.
const weighInterval = 10 * time.Minute

// lead replaces the stored layout if it does not fit the namespaces or the number of shards, is older than the newest layout
// that a replica has confirmed, or does not exist.
func (c *coordinator) lead(ctx context.Context, stored shards.StoredLayout, newest int64) {
	fits := stored.Version > 0 && stored.Version >= newest && stored.Shards() == c.Shards
	if fits && c.clock.Since(c.weighed) < weighInterval {
		return
	}
	logger := klog.FromContext(ctx)
	weights, err := c.Weigh(ctx)
	if err != nil {
		logger.Error(err, "Cannot count the objects of each namespace for the layout of the shards")
	}
	c.weighed = c.clock.Now()
	next, changed := stored.Next(weights, c.Shards)
	if fits && (!changed || err != nil) {
		return
	}
	next.Version = min(max(stored.Version, newest)+1, shards.MaxVersion)
	if err := c.store.Replace(ctx, stored, next); err != nil {
		logger.Error(err, "Cannot write the layout of the shards")
	}
}
