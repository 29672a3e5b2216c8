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

// The times of a Lease, which are those of Kubernetes' own controllers.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

var (
	errLeaseLost = errors.New("another process leads now: the lease was not renewed in time")
	// errAbandoned ends an election whose work goes on: the lease is not given back
	// but left to expire.
	errAbandoned = errors.New("work may still be going on")
)

// election decides which of several processes works.
type election struct {
	Lease
	duration time.Duration // how long a lease holds that is not renewed
	deadline time.Duration // how long its holder tries to renew it
	period   time.Duration // between two tries
	watchdog *leaderelection.HealthzAdaptor
	clock    clock.Clock // of the wait for a lease to expire
}

func newElection(lease Lease, watchdog *leaderelection.HealthzAdaptor) *election {
	return &election{lease, leaseDuration, renewDeadline, retryPeriod, watchdog, clock.RealClock{}}
}

// run calls work once this process holds the lease. It returns when ctx ends, with
// the lease given back unless the cause is errAbandoned, or with errLeaseLost if the
// lease is lost before. A lease that is lost is never given back: there is work that
// has not heard of it yet.
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

// announce logs who holds the lease now, and what that means for this process.
func (e *election) announce(ctx context.Context, leader string) {
	logger := klog.FromContext(ctx).WithValues("lease", klog.KRef(e.Namespace, e.Name), "leader", leader)
	if other, _, _ := strings.Cut(leader, "/"); other != leader && !strings.HasPrefix(e.Identity, other+"/") {
		logger.Info("Another installation works in this cluster; this one stands by until that one ends", "namespace", other)
		return
	}
	logger.Info("Leader elected", "self", leader == e.Identity)
}

// What becomes of an attempt is decided once: whoever leaves standing does so.
const (
	standing int32 = iota
	leading
	over
)

// attempt tries for the lease until it has led or ctx ends. The library asks for
// the lease every 2 s to 4.4 s; so that nobody waits that long for one that is
// free, an attempt is over when that is seen, and the next one asks at once.
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
	// The watch is there before the elector looks, so that no release falls between.
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
