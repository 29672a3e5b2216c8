package process

import (
	"context"

	"k8s.io/klog/v2"

	"windlass.dev/windlass/pkg/sharding/shards"
)

// confirmation says whether this replica's own Lease, as stored by the API server, has the ID of the layout. Two
// functions change it. The table has the new state after a successful write and after a failed write:
//
//	             switchLayout, which confirms  yield, which withdraws
//	unconfirmed  confirmed, unconfirmed        withdrawn, withdrawing
//	confirmed    confirmed, unconfirmed        withdrawn, withdrawing
//	withdrawing  confirmed, withdrawing        withdrawn, withdrawing
//	withdrawn    confirmed, withdrawing        withdrawn without a write
type confirmation int

const (
	unconfirmed confirmation = iota // not known: the last attempt to confirm has failed, or there was none
	confirmed                       // the Lease has the ID of the layout
	withdrawing                     // not known; another installation works, or has worked since the last confirmation
	withdrawn                       // the Lease has no ID, because another installation works
)

// yields reports whether this replica works on no shard because another installation works, or has worked since the
// last confirmation.
func (c *coordinator) yields() bool { return c.confirmation >= withdrawing }

// mustConfirm reports whether this replica must confirm a layout before it continues: the stored layout is newer than
// the layout of this replica or has other cuts, or the layout of this replica is not confirmed.
func (c *coordinator) mustConfirm(stored shards.StoredLayout) bool {
	otherCuts := stored.Version == c.layout.Version && stored.ID() != c.layout.ID()
	return stored.Version > c.layout.Version || otherCuts || c.confirmation != confirmed
}

// switchLayout stops all work with the previous layout, and confirms the new one. If the confirmation succeeds, the
// next step follows at once. switchLayout returns an error if reconciles do not end in time.
func (c *coordinator) switchLayout(ctx context.Context, layout shards.Layout) error {
	if err := c.stopShards(); err != nil {
		return err
	}
	if layout.Version >= c.layout.Version {
		c.layout = layout
	}
	if c.yields() {
		c.confirmation = withdrawing // even after an error, because the next renewal writes the ID
	} else {
		c.confirmation = unconfirmed
	}
	if err := c.presence.confirm(ctx, c.layout.ID()); err != nil {
		klog.FromContext(ctx).Error(err, "Failed to confirm the layout of the shards", "layout", c.layout.Version)
		return nil
	}
	c.confirmation = confirmed
	klog.FromContext(ctx).Info("Using a new layout of the shards", "layout", c.layout.Version, "shards", c.layout.Shards())
	layoutShards.Set(float64(c.layout.Shards()))
	c.ready()
	c.wake()
	return nil
}

// yield releases all shards and withdraws the confirmation of the layout, because another installation holds a Lease of
// the cluster. No replica works on a shard until the leader has confirmed the layout again. The leader does that after
// election.begin has waited until the other installation has ended.
func (c *coordinator) yield(ctx context.Context) error {
	klog.FromContext(ctx).Info("Standing by while another installation works")
	if err := c.stopAndReleaseAll(ctx); err != nil {
		return err
	}
	if c.confirmation == withdrawn {
		return nil
	}
	c.confirmation = withdrawing
	if err := c.presence.confirm(ctx, ""); err != nil {
		klog.FromContext(ctx).Error(err, "Failed to withdraw the confirmation of the layout of the shards")
		return nil
	}
	c.confirmation = withdrawn
	c.ready()
	return nil
}
