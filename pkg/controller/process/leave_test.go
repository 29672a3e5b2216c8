package process

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/controller/shards"
)

// TestShardOfferedToAStoppedReplicaIsTakenBackAtOnce stops a replica before it has acquired the shard that was released for it.
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
			updates(m, refuseShard)
		})
		controllertest.ErrorContains(l.t, "", <-b.ended)
		l.settlesWithin(stepInterval, "when the other one has been stopped", map[string]int{"a": 40})
		a.ends()
	})
}

// TestReplicaReleasesShardsThatItDoesNotKnowToHold lets a replica leave after the API server has stored that it has acquired shards, and the responses
// were lost.
func TestReplicaReleasesShardsThatItDoesNotKnowToHold(t *testing.T) {
	inLedger(t, func(t *testing.T, l *ledger) {
		c, view := l.coordinator()
		before := maps.Clone(c.listed)
		c.take(t.Context(), view)
		l.wantHolders("a")
		c.listed = before
		c.leave(t.Context())
		l.wantHolders("")
	})
}

// TestEndOfTheProcessCancelsNoAcquisition acquires shards with a context that has ended.
func TestEndOfTheProcessCancelsNoAcquisition(t *testing.T) {
	inLedger(t, func(t *testing.T, l *ledger) {
		c, view := l.coordinator()
		c.leases = canceling{c.leases}
		ended, end := context.WithCancel(t.Context())
		end()
		c.take(ended, view)
		l.wantHolders("a")
	})
}

// coordinator returns a coordinator that has not acquired any shard yet, and what it sees.
func (l *ledger) coordinator() (*coordinator, shards.View) {
	l.t.Helper()
	a := l.start("a", 4)
	l.settles("at first", map[string]int{"a": 40})
	a.ends()
	c := newCoordinator(l.t.Context(), Options{Sharding: &Sharding{}, Leases: leasesOf(a, "windlass-system")}, nil, nil)
	s, err := c.readState(l.t.Context())
	controllertest.ErrorContains(l.t, "", err)
	c.listed = byName(s.leases)
	return c, c.observer.View(s.leases, s.layout.Layout, s.asked)
}

// wantHolders fails the test unless all four shards have this holder.
func (l *ledger) wantHolders(holder string) {
	l.t.Helper()
	leases, err := l.client.CoordinationV1().Leases("windlass-system").List(l.t.Context(), metav1.ListOptions{})
	controllertest.ErrorContains(l.t, "", err)
	var holders []string
	for _, lease := range leases.Items {
		if isShard(&lease) {
			holders = append(holders, holderOf(&lease))
		}
	}
	controllertest.Equal(l.t, "holders of the shards", slices.Repeat([]string{holder}, 4), holders)
}

// canceling refuses a write whose context has ended.
type canceling struct {
	coordinationclient.LeaseInterface
}

// Update implements LeaseInterface.
func (c canceling) Update(ctx context.Context, lease *coordinationv1.Lease, o metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return c.LeaseInterface.Update(ctx, lease, o)
}

// settlesWithin waits until each replica works on its share of the namespaces, and fails the test if that takes too long by the clock of the bubble.
func (l *ledger) settlesWithin(limit time.Duration, when string, shares map[string]int) {
	l.t.Helper()
	began := time.Now()
	l.settles(when, shares)
	if took := time.Since(began); took > limit {
		l.t.Errorf("it took %v until the owners were %v %s", took, shares, when)
	}
}
