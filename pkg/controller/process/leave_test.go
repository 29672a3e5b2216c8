package process

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/sharding"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/sharding/shards"
)

// TestShardOfferedToAStoppedReplicaIsTakenBackAtOnce stops a replica when a shard is released for it. The replica
// cannot acquire shards.
func TestShardOfferedToAStoppedReplicaIsTakenBackAtOnce(t *testing.T) {
	inLedger(t, func(_ *testing.T, l *ledger) {
		var stop atomic.Value // stops the other replica
		a := l.start("a", 4, func(m *member, _ *Options) {
			updates(m, func(lease *coordinationv1.Lease) error {
				if lease.Annotations[shards.OfferedAnnotation] == "b" {
					stop.Load().(context.CancelFunc)()
				}
				return nil
			})
		})
		l.settles("with one replica", map[string]int{"a": 40})
		b := l.start("b", 4, func(m *member, _ *Options) {
			stop.Store(m.stop)
			updates(m, rejectShard)
		})
		controllertest.ErrorContains(l.t, "", <-b.ended)
		l.settlesWithin(stepInterval, "when the other one has been stopped", map[string]int{"a": 40})
		a.ends()
	})
}

// TestReplicaReleasesShardsWhoseAcquisitionItDoesNotKnow lets a replica acquire shards without receiving the responses,
// and then leave.
func TestReplicaReleasesShardsWhoseAcquisitionItDoesNotKnow(t *testing.T) {
	inLedger(t, func(t *testing.T, l *ledger) {
		c, view := l.coordinator()
		before := maps.Clone(c.listed)
		c.take(t.Context(), view)
		l.wantOwners("a")
		c.listed = before
		c.leave(t.Context())
		l.wantOwners("")
	})
}

// TestReplicaWhoseReleaseFailsKeepsItsLease lets the release of a shard fail. The other replicas need the confirmation
// in the Lease of the replica that owns this shard.
func TestReplicaWhoseReleaseFailsKeepsItsLease(t *testing.T) {
	inLedger(t, func(_ *testing.T, l *ledger) {
		a := l.start("a", 4)
		l.settles("at first", map[string]int{"a": 40})
		b := l.start("b", 4, func(m *member, _ *Options) {
			updates(m, func(lease *coordinationv1.Lease) error {
				if isShard(lease) && holderOf(lease) == "" && strings.HasSuffix(lease.Name, "-3") {
					return errLate
				}
				return nil
			})
		})
		l.settles("with both", map[string]int{"a": 20, "b": 20})
		b.ends()
		l.settlesWithin(2*stepInterval, "after the other one has released one of its shards", map[string]int{"a": 30, "": 10})
		l.settlesWithin(leaseDuration+100*time.Millisecond, "when the Lease of the other one has expired",
			map[string]int{"a": 40})
		a.ends()
	})
}

// TestSlowReconcileDelaysNoOtherShard stops a replica that works on two shards while a reconcile of each is in flight.
// One of the reconciles ends later than the other.
func TestSlowReconcileDelaysNoOtherShard(t *testing.T) {
	inLedger(t, func(_ *testing.T, l *ledger) {
		a := l.start("a", 4)
		l.settles("at first", map[string]int{"a": 40})
		slow, slower := make(chan struct{}), make(chan struct{})
		b := l.start("b", 4, reconciles(slow, slower))
		l.settles("with both", map[string]int{"a": 20, "b": 20})
		b.stop()
		l.passes(time.Second)
		l.settlesWithin(0, "while the reconciles are in flight", map[string]int{"a": 20, "b": 20})
		close(slow)
		l.settlesWithin(time.Second, "when one has ended", map[string]int{"a": 30, "b": 10})
		close(slower)
		l.settlesWithin(time.Second, "when both have ended", map[string]int{"a": 40})
		b.ends()
		a.ends()
	})
}

// TestReconcileThatDoesNotEndKeepsItsShard stops a replica while a reconcile is in flight that does not end in time.
func TestReconcileThatDoesNotEndKeepsItsShard(t *testing.T) {
	inLedger(t, func(t *testing.T, l *ledger) {
		a := l.start("a", 4)
		l.settles("at first", map[string]int{"a": 40})
		never := make(chan struct{})
		b := l.start("b", 4, reconciles(never))
		l.settles("with both", map[string]int{"a": 20, "b": 20})
		b.stop()
		controllertest.ErrorContains(t, "timed out", <-b.ended)
		l.passes(renewDeadline)
		l.settlesWithin(0, "when the other one has ended", map[string]int{"a": 30, "b": 10})
		l.settles("when the Lease of the other one has expired", map[string]int{"a": 40})
		close(never)
		a.ends()
	})
}

// TestLeaderClearsTheLeaseOfAShardWhoseOwnerIsGone stores the Lease of a surplus shard whose owner has no Lease of a
// replica.
func TestLeaderClearsTheLeaseOfAShardWhoseOwnerIsGone(t *testing.T) {
	inLedger(t, func(t *testing.T, l *ledger) {
		a := l.start("a", 2)
		l.settles("at first", map[string]int{"a": 40})
		leases, name := l.client.CoordinationV1().Leases("windlass-system"), shards.LeaseName(leaseName, 7)
		_, err := leases.Create(t.Context(), &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{
				Name: name, Labels: map[string]string{shards.OperatorLabel: leaseName},
			}, Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("gone")},
		}, metav1.CreateOptions{})
		controllertest.ErrorContains(t, "", err)
		l.eventually("the leader to clear the Lease", func() bool {
			lease, err := leases.Get(t.Context(), name, metav1.GetOptions{})
			return err == nil && holderOf(lease) == ""
		})
		a.ends()
	})
}

// TestReplicaReleasesNoShardWhoseLeaseIsDeleted has a View of a surplus shard whose Lease was deleted. For a while, the
// shard counts as owned. The owner must not try to release the shard again and again without a pause.
func TestReplicaReleasesNoShardWhoseLeaseIsDeleted(t *testing.T) {
	inLedger(t, func(t *testing.T, l *ledger) {
		c, view := l.coordinator()
		view.Leases = append(make([]shards.Lease, view.Layout.Shards()), shards.Lease{Owner: "a"})
		released, err := c.releaseSurplus(t.Context(), view)
		controllertest.ErrorContains(t, "", err)
		controllertest.Equal(t, "whether it has released a shard", false, released)
	})
}

// reconciles keeps one reconcile in flight for each of the first shards of a replica. The reconcile of the nth shard
// ends when the nth channel is closed.
func reconciles(until ...chan struct{}) func(*member, *Options) {
	return func(m *member, o *Options) {
		start := o.Sharding.New
		o.Sharding.New = func(ctx context.Context, selector sharding.Selector) (Instance, error) {
			of, err := start(ctx, selector)
			if len(until) > 0 {
				ended := until[0]
				until = until[1:]
				of.Controllers = m.controllers(func(context.Context) { <-ended })
			}
			return of, err
		}
	}
}

// TestEndOfTheProcessCancelsNoAcquisition acquires shards with a context that has ended.
func TestEndOfTheProcessCancelsNoAcquisition(t *testing.T) {
	inLedger(t, func(t *testing.T, l *ledger) {
		c, view := l.coordinator()
		c.leases = canceling{c.leases}
		ended, end := context.WithCancel(t.Context())
		end()
		c.take(ended, view)
		l.wantOwners("a")
	})
}

// coordinator returns a coordinator that has not acquired any shard yet, and its View.
func (l *ledger) coordinator() (*coordinator, shards.View) {
	l.t.Helper()
	a := l.start("a", 4)
	l.settles("at first", map[string]int{"a": 40})
	a.ends()
	c := newCoordinator(l.t.Context(), Options{Sharding: &Sharding{}, Leases: leasesOf(a, "windlass-system")}, nil,
		func() {})
	s, err := c.readState(l.t.Context())
	controllertest.ErrorContains(l.t, "", err)
	c.listed = byName(s.leases)
	return c, c.observer.View(s.leases, s.layout.Layout, s.asked)
}

// wantOwners fails the test unless all four shards have this owner.
func (l *ledger) wantOwners(owner string) {
	l.t.Helper()
	leases, err := l.client.CoordinationV1().Leases("windlass-system").List(l.t.Context(), metav1.ListOptions{})
	controllertest.ErrorContains(l.t, "", err)
	var owners []string
	for _, lease := range leases.Items {
		if isShard(&lease) {
			owners = append(owners, holderOf(&lease))
		}
	}
	controllertest.Equal(l.t, "owners of the shards", slices.Repeat([]string{owner}, 4), owners)
}

// canceling rejects an update whose context has ended.
type canceling struct {
	coordinationclient.LeaseInterface
}

// Update implements LeaseInterface.
func (c canceling) Update(
	ctx context.Context, lease *coordinationv1.Lease, o metav1.UpdateOptions,
) (*coordinationv1.Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return c.LeaseInterface.Update(ctx, lease, o)
}
