package process

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// The times of a Lease. They are the same as for the controllers of Kubernetes.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

var (
	errLeaseLost = errors.New("another process leads now: the lease was not renewed in time")
	// errAbandoned ends an election while reconciles may still be in flight: the Lease is not released,
	// but expires.
	errAbandoned = errors.New("work may still be going on")
)

// election elects the one of several processes that works.
type election struct {
	Lease
	duration time.Duration // how long a Lease is valid without a renewal
	deadline time.Duration // how long the holder tries to renew it
	period   time.Duration // between two attempts of the holder or a candidate
	watchdog *leaderelection.HealthzAdaptor
	clock    clock.Clock // for the wait until a Lease expires
}

func newElection(lease Lease, watchdog *leaderelection.HealthzAdaptor) *election {
	return &election{lease, leaseDuration, renewDeadline, retryPeriod, watchdog, clock.RealClock{}}
}

// run calls work once this process holds the Lease. When ctx ends, it releases the Lease, unless the
// cause is errAbandoned, and returns nil. If the Lease is lost before that, it returns errLeaseLost. It
// does not release a lost Lease, because reconciles may still be in flight.
func (e *election) run(ctx context.Context, work func()) error {
	for ctx.Err() == nil {
		led, err := e.attempt(ctx, work)
		if err != nil {
			return err
		}
		if led && ctx.Err() == nil {
			return errLeaseLost
		}
	}
	return nil
}

// announce logs which process holds the Lease now, and what that means for this process.
func (e *election) announce(ctx context.Context, leader string) {
	logger := klog.FromContext(ctx).WithValues("lease", klog.KRef(e.Namespace, e.Name), "leader", leader)
	if other, _, _ := strings.Cut(leader, "/"); other != leader && !strings.HasPrefix(e.Identity, other+"/") {
		logger.Info("Another installation works in this cluster; this one stands by until that one ends", "namespace", other)
		return
	}
	logger.Info("Leader elected", "self", leader == e.Identity)
}

// The states of an attempt. It changes once: from standing to leading or to over.
const (
	standing int32 = iota
	leading
	over
)

// attempt tries to acquire the Lease until it has led, the Lease becomes free, or ctx ends. client-go
// tries only every 2 s to 4.4 s. A Lease that becomes free therefore ends the attempt, and the next
// attempt tries at once. led reports whether this process has held the Lease.
func (e *election) attempt(outer context.Context, work func()) (led bool, err error) {
	ctx, cancel := context.WithCancel(outer)
	defer cancel()
	watching, unwatch := context.WithCancel(ctx)
	defer unwatch()
	var state atomic.Int32
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Name: e.Name,
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: e.Namespace, Name: e.Name},
			Client:     e.Client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: e.Identity},
		},
		LeaseDuration: e.duration,
		RenewDeadline: e.deadline,
		RetryPeriod:   e.period,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {
				if state.CompareAndSwap(standing, leading) {
					unwatch()
					work()
				}
			},
			OnStoppedLeading: func() {},
			OnNewLeader:      func(leader string) { e.announce(ctx, leader) },
		},
	})
	if err != nil {
		return false, fmt.Errorf("preparing the leader election: %w", err)
	}
	e.watchdog.SetLeaderElection(elector)
	lease := &leaseWatch{e.Client.CoordinationV1().Leases(e.Namespace), e.Name, e.Identity, e.period, e.clock}
	// The watch starts before the elector reads the Lease, so that it misses no release.
	go lease.run(watching, lease.open(watching), func() {
		if state.CompareAndSwap(standing, over) {
			cancel()
		}
	})
	elector.Run(ctx)
	led = !state.CompareAndSwap(standing, over) && state.Load() == leading
	if lost := led && outer.Err() == nil; !lost && !errors.Is(context.Cause(outer), errAbandoned) {
		lease.giveBack(outer, e.deadline)
	}
	return led, nil
}
