package process

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"windlass.dev/windlass/pkg/sharding/shards"
)

// The times of a Lease. They are the defaults of kube-controller-manager.
const (
	leaseDuration = shards.LeaseDuration
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

var (
	errLeaseLost = errors.New("the Lease was not renewed in time, so another process may lead now")
	// errAbandoned ends an election while reconciles may still be in flight: the Lease is not released,
	// but expires.
	errAbandoned = errors.New("reconciles may still be in flight")
)

// election elects one of several processes to run the workers.
type election struct {
	Lease
	duration time.Duration     // how long a Lease is valid without a renewal
	deadline time.Duration     // how long the holder tries to renew the Lease
	period   time.Duration     // between two attempts of the holder or a candidate
	labels   map[string]string // of the Lease
	clock    clock.Clock       // for the wait until a Lease expires
	term     *term
	// keep is true if the Lease is not released at the end of the election, but expires.
	keep atomic.Bool
}

func newElection(lease Lease) *election {
	return &election{
		Lease: lease, duration: leaseDuration, deadline: renewDeadline, period: retryPeriod, clock: clock.RealClock{},
		term: newTerm(clock.RealClock{}, leaseDuration, renewDeadline),
	}
}

// run calls work once this process holds the Lease. When ctx ends, it releases the Lease, unless the cause is
// errAbandoned, and returns nil. If the Lease is lost before ctx ends, run returns errLeaseLost. It does not release a
// lost Lease, because reconciles may still be in flight.
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

// announce logs which process holds the Lease now, and whether it is this process.
func (e *election) announce(ctx context.Context, leader string) {
	logger := klog.FromContext(ctx).WithValues("lease", klog.KRef(e.Namespace, e.Name), "leader", leader)
	if leader != "" && otherInstallation(leader, e.Identity) {
		logger.Info("Standing by while another installation of the operator holds the Lease", "namespace",
			installationOf(leader))
		return
	}
	logger.Info("Leader elected", "self", leader == e.Identity)
}

// attempt takes part in the election until this process loses the Lease, another holder frees the Lease, or
// outer ends. client-go tries to acquire a Lease only every 2 s to 4.4 s. A Lease that becomes free therefore
// ends the attempt, and the next attempt tries at once. led reports whether this process has held the Lease.
func (e *election) attempt(outer context.Context, work func()) (led bool, err error) {
	ctx, cancel := context.WithCancel(outer)
	defer cancel()
	standing, acquired := context.WithCancel(ctx)
	defer acquired()
	// The first of these events decides: this process leads; the Lease becomes free, which ends the attempt; the elector
	// ends.
	var decided sync.Once
	e.term.renewed.Store(nil)
	held := &lock{term: e.term, lost: cancel, Interface: &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: e.Namespace, Name: e.Name},
		Labels:     e.labels,
		Client:     e.Client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: e.Identity},
	}}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Name:          e.Name,
		Lock:          held,
		LeaseDuration: e.duration,
		RenewDeadline: e.deadline,
		RetryPeriod:   e.period,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {
				decided.Do(func() { led = true })
				if led {
					acquired()
					e.begin(ctx, held, work)
				}
			},
			OnStoppedLeading: func() {},
			OnNewLeader:      func(leader string) { e.announce(ctx, leader) },
		},
	})
	if err != nil {
		return false, fmt.Errorf("preparing the leader election with Lease %s/%s: %w", e.Namespace, e.Name, err)
	}
	// The watch starts before the elector reads the Lease, so that the watch misses no release.
	go e.watch(standing, e.open(standing), func() { decided.Do(cancel) })
	elector.Run(ctx)
	decided.Do(func() {})
	if lost := led && outer.Err() == nil; !lost && !e.keep.Load() && !errors.Is(context.Cause(outer), errAbandoned) {
		e.releaseIfHeld(outer)
	}
	return led, nil
}

// begin calls work. If another installation has held the Lease and has not released it, begin first waits. In this
// time, all replicas of that installation notice that the Lease is lost, and their reconciles in flight end. Only one
// of these replicas renewed the Lease, but all of them may work.
func (e *election) begin(ctx context.Context, held *lock, work func()) {
	if held.fromOther() {
		wait := e.duration + reconcilesTimeout
		klog.FromContext(ctx).Info("Waiting for the replicas of another installation to end", "holder", held.previous,
			"wait", wait)
		select {
		case <-e.clock.After(wait):
		case <-ctx.Done():
			return
		}
	}
	work()
}
