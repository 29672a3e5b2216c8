package process

import (
	"context"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"windlass.dev/windlass/pkg/sharding/shards"
)

const (
	// weighInterval is how often the leader checks whether the layout fits the namespaces.
	weighInterval = 10 * time.Minute
	// weighTimeout limits the time of one count of the objects.
	weighTimeout = weighInterval
)

// weights is the result of Sharding.Weigh.
type weights struct {
	objects map[string]int
	err     error
}

// maintainLayout replaces the stored layout if it does not exist, does not fit the namespaces or the number of shards,
// or is older than newest. newest is the version of the newest layout that a replica has confirmed. If somebody has
// deleted the layout that the replicas use, maintainLayout writes this layout again. If the stored layout needs no
// replacement, maintainLayout updates the numbers of objects in it.
func (c *coordinator) maintainLayout(ctx context.Context, s state, newest int64) error {
	writing, cancel := context.WithTimeout(ctx, renewDeadline)
	defer cancel()
	if s.layout.Version == 0 && c.layout.Version == newest && newest > 0 && c.layout.Shards() == c.Shards {
		c.replace(writing, s.layout, c.layout)
		return nil
	}
	fits := s.layout.Version > 0 && s.layout.Version >= newest && s.layout.Shards() == c.Shards
	w := c.counted.Load()
	nothingNew := w == nil || fits && (w == c.considered || w.err != nil)
	if nothingNew {
		return nil
	}
	next, changed := s.layout.Next(w.objects, c.Shards)
	if fits && !changed {
		c.considered = w
		if !slices.Equal(next.Weights, s.layout.Weights) {
			c.replace(writing, s.layout, next) // next has the same ID, so that no work stops
		}
		return nil
	}
	next.Version = min(max(s.layout.Version, newest)+1, shards.MaxVersion)
	if !c.replace(writing, s.layout, next) {
		return nil
	}
	c.considered = w
	return c.switchLayout(ctx, next)
}

// tidy deletes the Leases of replicas that are gone, and removes the owner from the Lease of a surplus shard if the
// owner is gone. Without tidy, a new replica would count the gone replicas for 5 s and acquire too few shards, and
// would not work for 15 s if such an owner stayed.
func (c *coordinator) tidy(ctx context.Context, leases []coordinationv1.Lease) {
	ctx, cancel := context.WithTimeout(ctx, renewDeadline)
	defer cancel()
	for _, lease := range c.observer.Abandoned(leases, c.layout) {
		c.clearGone(ctx, lease)
	}
	for _, lease := range c.observer.Gone(leases) {
		c.deleteGone(ctx, lease)
	}
}

// replace writes the layout next in place of the layout stored, and reports whether the write succeeded. It logs
// errors.
func (c *coordinator) replace(ctx context.Context, stored shards.StoredLayout, next shards.Layout) bool {
	err := c.store.Replace(ctx, stored, next)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Failed to write the layout of the shards")
	}
	return err == nil
}

// count counts the objects in each namespace every weighInterval until ctx ends. Counting takes long for many objects,
// so the steps of the coordinator do not wait for it.
func (c *coordinator) count(ctx context.Context) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		counting, cancel := context.WithTimeout(ctx, weighTimeout)
		defer cancel()
		objects, err := c.Weigh(counting)
		if err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Failed to count the objects of each namespace for the layout of the shards")
		}
		if err == nil || c.counted.Load() == nil { // a failure does not replace an earlier count
			c.counted.Store(&weights{objects, err})
		}
		c.wake()
	}, weighInterval)
}
