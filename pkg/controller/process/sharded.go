package process

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"windlass.dev/windlass/pkg/sharding/shards"
)

// coordinate runs an instance of the operator for each shard that this process works on, until ctx ends. It then
// releases the shards and the Leases, unless reconciles are still in flight: see election.run. It returns an error at
// once if a Lease is lost, or if the coordinator fails.
//
// After the signal that ends the process, these steps follow one another:
//
//	preventStartsOnSignal  no instance starts any more
//	presence.stop          marks the Lease of this replica as stopping
//	coordinator.run        releases each shard whose reconciles have ended: see releaseEnded
//	live                   ends ctx when all reconciles have ended (p.working)
//	elect, presence.run    end: the Leases of the leader are released, and nothing renews the Lease of this replica
//	coordinator.leave      releases the other shards, and deletes the Lease of this replica
func (p *process) coordinate(ctx context.Context, elections elections) error {
	changed := make(chan struct{}, 1)
	wake := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	c := newCoordinator(p.ctx, p.Options, p.follow, wake)
	leasesEnded := make(chan error, 2) // nil when ctx has ended
	var electing, renewing sync.WaitGroup
	c.ready = sync.OnceFunc(func() {
		p.takesPart.Store(true)
		electing.Go(func() {
			leasesEnded <- elect(ctx, elections, func() {
				c.leads.Store(true)
				go c.count(ctx)
				if p.Lead != nil {
					p.Lead()
				}
				wake()
			})
		})
	})
	p.Fence.guard(c.presence.term, c.readTerm)
	present, endPresence := context.WithCancel(ctx)
	defer endPresence()
	renewing.Go(func() { leasesEnded <- c.presence.run(present) })
	ended := make(chan struct{})
	defer close(ended)
	prevented := p.preventStartsOnSignal(c, ended)
	renewing.Go(func() {
		select {
		case <-prevented:
			c.presence.stop(ctx)
		case <-present.Done():
		}
	})
	go c.watch(ctx, wake)
	result := make(chan error, 1)
	go func() { result <- c.run(ctx, changed) }()
	if err := firstError(leasesEnded, result); err != nil {
		return err
	}
	electing.Wait() // the Lease of the leader is released before the Lease of this replica is deleted
	endPresence()
	renewing.Wait()
	if !errors.Is(context.Cause(ctx), errAbandoned) {
		c.leave(ctx)
	}
	return nil
}

// preventStartsOnSignal waits for the signal in the background. It then makes sure that no further instance starts, and
// closes prevented. If ended is closed first, it stops waiting. Until then, the counter of p.working is above zero, so
// that live waits.
func (p *process) preventStartsOnSignal(c *coordinator, ended <-chan struct{}) (prevented <-chan struct{}) {
	done := make(chan struct{})
	p.working.Go(func() {
		select {
		case <-p.ctx.Done():
			c.preventStarts()
			close(done)
			c.wake()
		case <-ended:
		}
	})
	return done
}

// firstError returns the first error from either channel, or nil if result delivers nil.
func firstError(other, result <-chan error) error {
	select {
	case err := <-other:
		if err != nil {
			return err
		}
		return <-result
	case err := <-result:
		return err
	}
}

// newCoordinator returns the coordinator of a process. working ends with the signal that ends the process. started is
// called when an instance starts, and wake starts the next step at once.
func newCoordinator(working context.Context, o Options, started func(*runningInstance), wake func()) *coordinator {
	c := &coordinator{
		Sharding: *o.Sharding, coordination: newCoordination(o.Leases), workers: o.Workers, working: working,
		started: started, wake: wake,
		running: map[int]*runningInstance{}, offers: map[int]offer{},
		declined: map[string]time.Time{}, doubtful: map[string]string{},
	}
	c.lastRead = c.clock.Now()
	c.readTerm = newTerm(c.clock, readDeadline, readDeadline)
	c.presence = &presence{
		leases: c.leases, operator: c.operator, identity: c.identity, clock: c.clock,
		term: newTerm(c.clock, leaseDuration, renewDeadline),
	}
	return c
}

// endSharding ends the work of other replicas on shards, for example after --shards was changed to 1. It replaces a
// stored layout by a layout without shards, and waits until no replica owns a shard. It returns false if ctx ends
// first. This process leads an operator without shards, so no other process writes a layout with shards. If no layout
// was ever stored, endSharding only reads.
func endSharding(ctx context.Context, lease Lease) bool {
	c := newCoordination([]Lease{lease})
	for {
		done, err := c.tryEndSharding(ctx)
		switch {
		case done: // despite an error
			return true
		case err != nil:
			klog.FromContext(ctx).Error(err, "Failed to end the work of other replicas on shards")
		}
		select {
		case <-ctx.Done():
			return false
		case <-c.clock.After(retryPeriod):
		}
	}
}

// tryEndSharding replaces a stored layout that has shards, or that is older than the layout of a replica that owns a
// shard. done is true if the stored layout has no shards and no replica owns a shard. A replica that acquires a shard
// later reads this layout before it works. done is also true if the operator may not read the layout, or the Leases
// without a stored layout, because such an operator has never had shards.
func (c *coordination) tryEndSharding(ctx context.Context) (done bool, err error) {
	stored, err := c.store.Read(ctx)
	foreignLayout := errors.Is(err, shards.ErrForeign) // no replica reads or overwrites this ConfigMap
	if err != nil && !foreignLayout {
		return apierrors.IsForbidden(err), err
	}
	s, err := c.readState(ctx)
	if err != nil && !errors.Is(err, shards.ErrForeign) {
		return apierrors.IsForbidden(err) && stored.Version == 0, err
	}
	view := c.observer.View(s.leases, stored.Layout, s.asked)
	switch idle := view.Idle(); {
	case stored.Shards() == 0 && idle:
		return true, nil
	case stored.Shards() == 0 && stored.Version >= max(view.Newest(), 1), foreignLayout:
		klog.FromContext(ctx).Info("Waiting for the replicas that work on shards")
		return false, nil
	}
	next := shards.Layout{Version: min(max(stored.Version, view.Newest())+1, shards.MaxVersion)}
	return false, c.store.Replace(ctx, stored, next)
}

// checkPart returns an error until this process takes part in sharing the work. It does not wait for the caches of
// shards, because the process acquires shards only after it takes part.
func (p *process) checkPart() error {
	if !p.takesPart.Load() {
		return errors.New("this replica has not confirmed the layout of the shards yet")
	}
	return nil
}

// follow adds an instance to the running instances, and removes it when it ends.
func (p *process) follow(i *runningInstance) {
	p.mu.Lock()
	p.instances = append(p.instances, i)
	p.mu.Unlock()
	p.working.Go(func() {
		<-i.ended
		p.mu.Lock()
		defer p.mu.Unlock()
		p.instances = slices.DeleteFunc(p.instances, func(other *runningInstance) bool { return other == i })
	})
}
