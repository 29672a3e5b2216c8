package process

import (
	"context"
	"maps"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/sharding/shards"
)

const (
	// offerPatience is how long this replica waits until another replica acquires an offered shard. After that, this
	// replica acquires the shard again, and offers no shard to the other replica for offerPause. If the other replica
	// stops or has ended, this replica does not wait.
	offerPatience, offerPause = 10 * time.Second, 5 * time.Minute
)

// offer records when a shard was released, and for which replica.
type offer struct {
	to string
	at time.Time
}

// releaseSurplus releases the shard that View.Surplus returns, if any. If the release succeeds, the next step follows
// at once. If the release fails, this replica works on the shard again. While nobody has acquired an offered shard,
// this replica releases no other shard.
func (c *coordinator) releaseSurplus(ctx context.Context, view shards.View) (released bool, err error) {
	view.Renewed = slices.DeleteFunc(slices.Clone(view.Renewed), func(replica string) bool {
		return c.clock.Since(c.declined[replica]) < offerPause
	})
	shard, to, ok := view.Surplus(c.identity)
	if !ok || len(c.offers) > 0 || !c.owns(view, shard) {
		return false, nil
	}
	if err := c.stopShard(shard); err != nil {
		return false, err
	}
	writing, cancel := context.WithTimeout(ctx, renewDeadline)
	defer cancel()
	switch released = c.releaseShard(writing, shards.LeaseName(c.operator, shard), to); {
	case released:
		c.wake()
	case to != "":
		c.declined[to] = c.clock.Now()
	}
	if to != "" {
		c.offers[shard] = offer{to, c.clock.Now()} // even after an error, because the API server may have stored the release
	}
	return released, nil
}

// releaseShard releases the Lease of a shard, and reports whether the release succeeded: see releaseIfOwned. It logs
// errors.
func (c *coordinator) releaseShard(ctx context.Context, name, to string) bool {
	lease := c.listed[name]
	err := c.releaseIfOwned(ctx, lease, to)
	if err == nil {
		return true
	}
	klog.FromContext(ctx).Error(err, "Failed to release a shard")
	if !controller.IsRejected(err) {
		c.doubtful[name] = lease.ResourceVersion
	}
	return false
}

// mayLose reports whether the API server may still release a Lease that this replica holds: the replica has tried to
// release this version of the Lease, and does not know the result.
func (c *coordinator) mayLose(name string) bool {
	lease := c.listed[name]
	return lease != nil && holderOf(lease) == c.identity && lease.ResourceVersion == c.doubtful[name]
}

// supersedeRelease makes sure that no earlier attempt to release a shard can still succeed. It acquires the Lease
// again, so that the API server rejects the earlier write. It returns false if it cannot acquire the Lease.
func (c *coordinator) supersedeRelease(ctx context.Context, shard int) bool {
	name := shards.LeaseName(c.operator, shard)
	if !c.mayLose(name) {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, renewDeadline)
	defer cancel()
	kept := c.acquire(ctx, shard, c.listed[name])
	if kept != nil {
		c.listed[name] = kept
	}
	return kept != nil
}

// stopAndReleaseAll stops the work on all shards, and releases them. It returns an error if reconciles do not end in
// time.
func (c *coordinator) stopAndReleaseAll(ctx context.Context) error {
	if err := c.stopShards(); err != nil {
		return err
	}
	c.releaseAllOwned(ctx)
	return nil
}

// releaseAllOwned releases all shards that this replica owns, and reports whether all releases succeeded.
func (c *coordinator) releaseAllOwned(ctx context.Context) (released bool) {
	ctx, cancel := context.WithTimeout(ctx, renewDeadline)
	defer cancel()
	released = true
	for _, name := range slices.Sorted(maps.Keys(c.listed)) {
		released = c.releaseShard(ctx, name, "") && released
	}
	return released
}

// releaseEnded releases the shards whose reconciles have ended. It is called after the signal that ends the process,
// while reconciles of other shards may be in flight.
func (c *coordinator) releaseEnded(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), renewDeadline) // see take
	defer cancel()
	for shard, i := range c.running {
		select {
		case <-i.ended:
			delete(c.running, shard)
		default:
		}
	}
	for shard := range shards.Max {
		if c.running[shard] == nil {
			c.releaseShard(ctx, shards.LeaseName(c.operator, shard), "")
		}
	}
}

// take tries to acquire the shards that View.Take returns, and the shards that this replica offered and no replica
// acquired. The next step begins to work on them. The end of ctx cancels no request: the API server could carry out a
// canceled request after leave has read the Leases. Nobody would then work on the shard until the Lease of this replica
// expires.
func (c *coordinator) take(ctx context.Context, view shards.View) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), renewDeadline)
	defer cancel()
	free := view.Free()
	for shard, o := range c.offers {
		isFree := slices.Contains(free, shard)
		isTaken := !isFree && !c.mayLose(shards.LeaseName(c.operator, shard)) // for certain
		expired := c.clock.Since(o.at) > offerPatience || c.ends(o.to)
		if expired && isFree {
			c.acquireShard(ctx, shard)
			c.declined[o.to] = c.clock.Now()
		}
		if expired || isTaken {
			delete(c.offers, shard)
			c.wake() // this replica may release the next shard
		}
	}
	for _, shard := range view.Take(c.identity) {
		if _, offered := c.offers[shard]; !offered {
			c.acquireShard(ctx, shard)
		}
	}
}

// ends reports whether a replica stops, or has ended and deleted its Lease.
func (c *coordinator) ends(replica string) bool {
	lease := c.listed[shards.ReplicaLeaseName(c.operator, replica)]
	return lease == nil || shards.IsStopping(lease)
}

// acquireShard tries to acquire the Lease of a shard, unless this replica stops.
func (c *coordinator) acquireShard(ctx context.Context, shard int) {
	name := shards.LeaseName(c.operator, shard)
	previous := c.listed[name]
	if c.startsPrevented() || holderOf(previous) == c.identity {
		return // this replica stops, or take has just acquired the shard, which was offered
	}
	if acquired := c.acquire(ctx, shard, previous); acquired != nil {
		c.listed[name] = acquired
	}
}

// leave reads the Leases once more, releases all shards that this replica owns, and deletes the Lease of this replica.
// The work on the shards must have ended. If a release fails, the Lease of this replica stays until it expires. Without
// that Lease, the shard would seem to belong to a replica that has confirmed no layout.
func (c *coordinator) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), renewDeadline)
	defer cancel()
	if leases, err := c.list(ctx); err == nil { // a write may have been carried out although its response was an error
		c.listed = byName(leases)
	}
	if c.releaseAllOwned(ctx) {
		c.presence.remove(ctx)
	}
}
