package process

import (
	"context"

	"k8s.io/klog/v2"

	"windlass.dev/windlass/pkg/sharding/shards"
)

// confirmation says whether this replica's own Lease, as stored by the API server, has the ID of the layout.
type confirmation int

const (
	unconfirmed confirmation = iota // not known: the last attempt to confirm has failed, or there was none
	confirmed                       // it has the ID of the layout
	withdrawing                     // not known, since another installation has worked
	withdrawn                       // it has no ID, because another installation works
)

// yields reports whether this replica works on no shard because another installation works, or has worked since the
// last confirmation.
func (c *coordinator) yields() bool { return c.confirmation >= withdrawing }

// mustConfirm reports whether this replica must confirm a layout before it continues: the stored layout is newer, has
// other cuts, or its own layout is not confirmed.
func (c *coordinator) mustConfirm(stored shards.StoredLayout) bool {
	otherCuts := stored.Version == c.layout.Version && stored.ID() != c.layout.ID()
	return stored.Version > c.layout.Version || otherCuts || c.confirmation != confirmed
}

// switchLayout stops all work with the former layout, and confirms the new one. When the API server has stored that,
// the next step follows at once.
func (c *coordinator) switchLayout(ctx context.Context, layout shards.Layout) error {
	if err := c.stopShards(); err != nil {
		return err
	}
	if layout.Version >= c.layout.Version {
		c.layout = layout
	}
	if c.yields() {
		c.confirmation = withdrawing // even after an error, because the Lease is renewed with the layout
	} else {
		c.confirmation = unconfirmed
	}
	if err := c.presence.confirm(ctx, c.layout.ID()); err != nil {
		klog.FromContext(ctx).Error(err, "Cannot confirm the layout of the shards", "layout", c.layout.Version)
		return nil
	}
	c.confirmation = confirmed
	klog.FromContext(ctx).Info("Using a new layout of the shards", "layout", c.layout.Version, "shards", c.layout.Shards())
	layoutShards.Set(float64(c.layout.Shards()))
	c.ready()
	c.wake()
	return nil
}

// yield releases all shards while another installation holds a Lease of the cluster, and withdraws the confirmation of
// the layout. Nobody works on a shard without the confirmation of the leader, which confirms the layout again when
// election.begin has waited until the other installation has ended.
func (c *coordinator) yield(ctx context.Context) error {
	klog.FromContext(ctx).Info("Standing by while another installation works")
	if err := c.releaseAll(ctx); err != nil {
		return err
	}
	if c.confirmation == withdrawn {
		return nil
	}
	c.confirmation = withdrawing
	if err := c.presence.confirm(ctx, ""); err != nil {
		klog.FromContext(ctx).Error(err, "Cannot withdraw the confirmation of the layout")
		return nil
	}
	c.confirmation = withdrawn
	c.ready()
	return nil
}
