package process

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/klog/v2"

	"windlass.dev/windlass/pkg/sharding/shards"
)

// Sharding divides the namespaces of a cluster among the replicas of an operator: each replica works on the shards
// whose Leases it holds, and one replica leads. See package shards.
type Sharding struct {
	// Shards is the number of shards, from 2 to shards.Max. With 1, there are no shards: the leader waits until no
	// replica works on a shard, and then works on all namespaces. If replicas are configured with different numbers,
	// the number of the leader applies.
	Shards int
	// New returns the operator for the namespaces that a selector of object.metadata.namespace matches.
	New func(ctx context.Context, namespaces sharding.Selector) (Instance, error)
	// Weigh returns the number of objects in each namespace.
	Weigh func(ctx context.Context) (map[string]int, error)
}

const (
	// stepInterval is the time between two steps while this replica waits for others and no Lease changes. restInterval is
	// the time between two steps while this replica waits for nothing and no Lease expires.
	stepInterval, restInterval = 3 * time.Second, 6 * time.Second
	// readDeadline is how long this process sends writes after it has read the state. Another installation that acquires
	// the Lease of the cluster waits longer than readDeadline before it works.
	readDeadline = renewDeadline + reconcilesTimeout
	// readPatience is how long a replica that has a share of the shards may fail to read the state before its process
	// ends. It is renewDeadline plus the additional time between two steps at rest.
	readPatience = renewDeadline + restInterval - stepInterval
)

// coordinator decides which shards this replica works on, together with the coordinators of the other replicas.
//
// Package shards has the protocol, which ensures that no two replicas work on the same object.
type coordinator struct {
	Sharding
	coordination
	presence *presence
	workers  int
	// working ends with the signal that ends the process.
	working context.Context
	started func(*runningInstance) // is called when an instance starts
	leads   atomic.Bool            // whether this replica leads
	// ready is called when this replica has confirmed a layout, or has withdrawn its confirmation. From then on, this
	// replica may become the leader.
	ready func()

	// layout is the layout that this replica works with, or will work with next.
	layout       shards.Layout
	confirmation confirmation
	settled      bool                             // this replica waits for nothing
	counted      atomic.Pointer[weights]          // the latest result of Weigh; nil before the first one
	considered   *weights                         // the result of Weigh that the stored layout fits
	wake         func()                           // starts the next step at once
	lastRead     time.Time                        // when the state was last read, or a failure to read it was harmless
	readTerm     *term                            // renewed by each reading of the state
	listed       map[string]*coordinationv1.Lease // all Leases, by name
	running      map[int]*runningInstance         // by shard
	offers       map[int]offer                    // shards that this replica has offered, and no replica owns yet
	// declined is when a replica last failed to acquire an offered shard, or an offer to it failed, by replica.
	declined map[string]time.Time
	// doubtful is the version of a Lease that this replica tried to release without learning the result, by name.
	doubtful map[string]string

	mu        sync.Mutex
	prevented bool // no instance may start any more
}

// run coordinates until ctx ends. It returns an error if this replica has lost a shard, has failed to read the state
// for readPatience, or cannot start an instance, or if reconciles do not end in time. changes has a value when the
// Leases may have changed, or an instance has ended.
func (c *coordinator) run(ctx context.Context, changes <-chan struct{}) error {
	for {
		if err := c.step(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-changes:
		case <-c.clock.After(c.interval()):
		case <-ctx.Done():
			return nil
		}
	}
}

// interval returns the time until the next step if no Lease changes.
func (c *coordinator) interval() time.Duration {
	if !c.settled {
		return stepInterval
	}
	return min(restInterval, c.observer.UntilExpiry())
}

// step carries out the steps in the comment of package shards, as far as what it has read allows. An error ends the
// process.
func (c *coordinator) step(ctx context.Context) error {
	c.settled = false
	// Step 1.
	s, err := c.readState(ctx)
	if err != nil {
		return c.readFailed(ctx, err)
	}
	c.lastRead, c.listed = s.asked, byName(s.leases)
	if s.foreign {
		return c.yield(ctx)
	}
	c.readTerm.renew(s.asked)
	if c.yields() && !c.leads.Load() && holderOf(c.listed[c.operator]) == c.identity {
		return nil // election.begin waits until the other installation has ended
	}
	if c.mustConfirm(s.layout) {
		return c.switchLayout(ctx, s.layout.Layout) // the next step reads the Leases again
	}
	if s.layout.ID() == c.layout.ID() {
		c.layout.Weights = s.layout.Weights
	}
	view := c.observer.View(s.leases, c.layout, s.asked)
	if view.Leader.Owner != "" && view.Leader.Confirmed == "" {
		klog.FromContext(ctx).Info("Standing by while the leader works without shards, or waits for another "+
			"installation", "leader", view.Leader.Owner)
		return c.stopAndReleaseAll(ctx)
	}
	for shard := range c.running {
		if !c.owns(view, shard) {
			return fmt.Errorf("shard %d: %w", shard, errLeaseLost)
		}
	}
	if c.startsPrevented() {
		c.releaseEnded(ctx)
		return nil
	}
	// Step 2.
	if released, err := c.releaseSurplus(ctx, view); released || err != nil {
		return err // the view is outdated
	}
	c.take(ctx, view)
	// Step 3.
	if s.layout.ID() == c.layout.ID() && s.layout.Version > 0 {
		if err := c.startShards(ctx, view); err != nil {
			return err
		}
		c.settled = view.Settled(c.identity, len(c.running)) && len(c.offers) == 0
	}
	// Step 4.
	if c.leads.Load() {
		c.tidy(ctx, s.leases)
		return c.maintainLayout(ctx, s, max(c.layout.Version, view.Newest()))
	}
	return nil
}

// readFailed handles an error of readState. A replica whose own Lease is valid has a share of the shards, even if the
// replica cannot work. If the replica has not read the state for readPatience, readFailed returns err. This ends the
// process, so that other replicas get the share. Before that, readFailed only logs err, unless ctx has ended.
func (c *coordinator) readFailed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil // the end of the process has canceled the request
	}
	waits := len(c.running) == 0 && errors.Is(err, shards.ErrForeign) // then all replicas wait
	if !c.presence.term.begun() || waits {
		c.lastRead = c.clock.Now()
	}
	if c.clock.Since(c.lastRead) > readPatience {
		return fmt.Errorf("coordinating with the other replicas: %w", err)
	}
	klog.FromContext(ctx).Error(err, "Failed to coordinate with the other replicas")
	return nil
}

// owns reports whether this replica owns a shard, and the Lease of the shard still exists.
func (c *coordinator) owns(view shards.View, shard int) bool {
	return view.Owns(c.identity, shard) && holderOf(c.listed[shards.LeaseName(c.operator, shard)]) == c.identity
}

func byName(leases []coordinationv1.Lease) map[string]*coordinationv1.Lease {
	named := map[string]*coordinationv1.Lease{}
	for i := range leases {
		named[leases[i].Name] = &leases[i]
	}
	return named
}

// stopShards stops the work on all shards. This replica keeps their Leases. It returns an error if reconciles do not
// end in time.
func (c *coordinator) stopShards() error {
	for _, i := range c.running {
		i.cancel() // so that all instances end at the same time
	}
	for shard := range c.running {
		if err := c.stopShard(shard); err != nil {
			return err
		}
	}
	return nil
}

// stopShard stops the work on a shard, if there is any. It returns an error if reconciles do not end in time.
func (c *coordinator) stopShard(shard int) error {
	i := c.running[shard]
	if i == nil {
		return nil
	}
	delete(c.running, shard)
	return i.stop()
}

// preventStarts makes sure that no instance starts any more.
func (c *coordinator) preventStarts() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.prevented = true
}

func (c *coordinator) startsPrevented() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.prevented
}

// startShards starts to work on the shards that this replica owns. The caller must have read view and the layout after
// it acquired the Leases of these shards.
func (c *coordinator) startShards(ctx context.Context, view shards.View) error {
	for shard := range c.layout.Shards() {
		if c.running[shard] != nil || !c.owns(view, shard) || !view.MayWork(shard) {
			continue
		}
		if err := c.startShard(ctx, shard); err != nil {
			return err
		}
	}
	return nil
}

// startShard starts to work on a shard, unless starts are prevented or supersedeRelease fails.
func (c *coordinator) startShard(ctx context.Context, shard int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.prevented {
		return nil
	}
	if !c.supersedeRelease(ctx, shard) {
		return nil
	}
	of, err := c.New(ctx, c.layout.Selector(shard))
	if err != nil {
		return fmt.Errorf("starting the operator for shard %d: %w", shard, err)
	}
	klog.FromContext(ctx).Info("Working on a shard", "shard", shard, "layout", c.layout.Version)
	i := start(c.working, of, c.workers)
	c.running[shard] = i
	c.started(i)
	go func() {
		<-i.ended
		c.wake()
	}()
	return nil
}
