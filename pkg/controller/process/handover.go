package process

import (
	"context"
	"maps"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/shards"
)

const (
	// offerPatience is how long another replica may take a shard that this one has given up, before this one takes it back. It then
	// offers that replica none for offerPause.
	offerPatience, offerPause = 10 * time.Second, 5 * time.Minute
)

// offer is a shard that was given up so that another replica takes it.
type offer struct {
	to string
	at time.Time
}

// give gives up one shard if another replica should have it. The next step follows at once. It waits until the other replica has
// taken the shard before it gives up another one. If the shard cannot be given up, this replica works on it again.
func (c *coordinator) give(ctx context.Context, view shards.View) (gave bool, err error) {
	view.Renewed = slices.DeleteFunc(view.Renewed, func(replica string) bool { return c.clock.Since(c.declined[replica]) < offerPause })
	shard, to, ok := view.Give(c.identity)
	if !ok || len(c.offers) > 0 {
		return false, nil
	}
	if err := c.pause(shard); err != nil {
		return false, err
	}
	writing, cancel := context.WithTimeout(ctx, renewDeadline)
	defer cancel()
	switch gave = c.giveUp(writing, shards.LeaseName(c.operator, shard), to); {
	case gave:
		c.wake()
	case to != "":
		c.declined[to] = c.clock.Now()
	}
	if to != "" {
		c.offers[shard] = offer{to, c.clock.Now()} // even after an error, because the API server may have stored it
	}
	return gave, nil
}

// giveUp gives back the Lease of a shard, and reports whether the API server has stored that: see release.
func (c *coordinator) giveUp(ctx context.Context, name, to string) bool {
	lease := c.listed[name]
	err := c.release(ctx, lease, to)
	if err == nil {
		return true
	}
	klog.FromContext(ctx).Error(err, "Cannot give up a shard")
	if !controller.IsRefused(err) {
		c.doubtful[name] = lease.ResourceVersion
	}
	return false
}

// mayLose reports whether this replica may lose a Lease that it holds, because the API server may still carry out an attempt to give it up.
func (c *coordinator) mayLose(name string) bool {
	lease := c.listed[name]
	return lease != nil && holderOf(lease) == c.identity && lease.ResourceVersion == c.doubtful[name]
}

// secure makes sure that this replica does not lose the Lease of a shard by an earlier attempt to give it up.
func (c *coordinator) secure(ctx context.Context, name string) error {
	if !c.mayLose(name) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, renewDeadline)
	defer cancel()
	kept, err := c.keep(ctx, c.listed[name])
	if err == nil {
		c.listed[name] = kept
	}
	return err
}

// giveAll gives up all shards.
func (c *coordinator) giveAll(ctx context.Context) error {
	if err := c.pauseAll(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, renewDeadline)
	defer cancel()
	for _, name := range slices.Sorted(maps.Keys(c.listed)) {
		c.giveUp(ctx, name, "")
	}
	return nil
}

// yield gives up all shards while another installation holds a Lease of the cluster, and withdraws the confirmation of the layout. Nobody
// works on a shard without the confirmation of the leader, which confirms the layout again when election.begin has waited until the other
// installation has ended.
func (c *coordinator) yield(ctx context.Context) error {
	klog.FromContext(ctx).Info("Standing by while another installation works")
	if err := c.giveAll(ctx); err != nil {
		return err
	}
	c.yields, c.confirmed = true, false
	if !c.withdrawn {
		if err := c.presence.confirm(ctx, ""); err != nil {
			klog.FromContext(ctx).Error(err, "Cannot withdraw the confirmation of the layout")
			return nil
		}
		c.withdrawn = true
	}
	c.ready()
	return nil
}

// take tries to acquire the shards that this replica should have, and those that it has offered in vain. The next step begins to work
// on them.
func (c *coordinator) take(ctx context.Context, view shards.View) {
	if c.isStopped() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, renewDeadline)
	defer cancel()
	free := view.Free()
	for shard, o := range c.offers {
		declined, isFree := c.clock.Since(o.at) > offerPatience, slices.Contains(free, shard)
		if declined && isFree {
			c.acquireShard(ctx, shard)
			c.declined[o.to] = c.clock.Now()
		}
		if declined || !isFree && !c.mayLose(shards.LeaseName(c.operator, shard)) {
			delete(c.offers, shard)
			c.wake() // this replica may give up the next shard
		}
	}
	for _, shard := range view.Take(c.identity) {
		if _, offered := c.offers[shard]; !offered {
			c.acquireShard(ctx, shard)
		}
	}
}

// acquireShard tries to acquire the Lease of a shard, and remembers how it has.
func (c *coordinator) acquireShard(ctx context.Context, shard int) {
	name := shards.LeaseName(c.operator, shard)
	former := c.listed[name]
	if holderOf(former) == c.identity {
		return // it has just acquired a shard that it had offered
	}
	if acquired := c.acquire(ctx, shard, former); acquired != nil {
		c.taken[shard] = takeoverFrom(former, c.listed[shards.ReplicaLeaseName(c.operator, holderOf(former))])
		c.listed[name] = acquired
	}
}

// leave gives up all shards, and removes the Lease of this replica. The work on the shards has ended.
func (c *coordinator) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), renewDeadline)
	defer cancel()
	_ = c.giveAll(ctx) // nothing runs
	c.presence.remove(ctx)
}
