package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// The lease and its times, which are those of Kubernetes' own controllers.
const (
	leaseName     = "windlass-controller"
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

var errLeaseLost = errors.New("another process leads now: the lease was not renewed in time")

// election decides which of several processes works.
type election struct {
	client              kubernetes.Interface
	namespace, identity string
	duration            time.Duration // how long a lease holds that is not renewed
	deadline            time.Duration // how long its holder tries to renew it
	period              time.Duration // between two tries
	watchdog            *leaderelection.HealthzAdaptor
}

func newElection(client kubernetes.Interface, namespace, identity string, watchdog *leaderelection.HealthzAdaptor) *election {
	return &election{client, namespace, identity, leaseDuration, renewDeadline, retryPeriod, watchdog}
}

// run calls work once this process holds the lease. It returns when ctx ends, with
// the lease released, or with errLeaseLost if the lease is lost before.
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

// What becomes of an attempt is decided once: whoever leaves standing does so.
const (
	standing int32 = iota
	leading
	over
)

// attempt tries for the lease until it has led or ctx ends. The library asks for
// the lease every 2 s to 4.4 s; so that nobody waits that long for a lease that
// was given back, an attempt is over when that is seen, and the next one asks at
// once.
func (e *election) attempt(ctx context.Context, work func()) (led bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watching, unwatch := context.WithCancel(ctx)
	defer unwatch()
	var state atomic.Int32
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Name: leaseName,
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: e.namespace, Name: leaseName},
			Client:     e.client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: e.identity},
		},
		LeaseDuration:   e.duration,
		RenewDeadline:   e.deadline,
		RetryPeriod:     e.period,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {
				if state.CompareAndSwap(standing, leading) {
					unwatch()
					work()
				}
			},
			OnStoppedLeading: func() {},
			OnNewLeader: func(leader string) {
				klog.FromContext(ctx).Info("Leader elected", "leader", leader, "self", leader == e.identity)
			},
		},
	})
	if err != nil {
		return false, fmt.Errorf("preparing the leader election: %w", err)
	}
	e.watchdog.SetLeaderElection(elector)
	// The watch is there before the elector looks, so that no release falls between.
	go e.onRelease(watching, e.watch(watching), func() {
		if state.CompareAndSwap(standing, over) {
			cancel()
		}
	})
	elector.Run(ctx)
	return !state.CompareAndSwap(standing, over) && state.Load() == leading, nil
}

// watch watches the lease. Where it cannot, nothing is lost but time.
func (e *election) watch(ctx context.Context) watch.Interface {
	events, err := e.client.CoordinationV1().Leases(e.namespace).Watch(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", leaseName).String(),
	})
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Watching the lease failed", "err", err)
		return watch.NewEmptyWatch()
	}
	return events
}

// onRelease calls released whenever the lease is given back, until ctx ends.
func (e *election) onRelease(ctx context.Context, events watch.Interface, released func()) {
	for ; ctx.Err() == nil; events = e.watch(ctx) {
		forEachRelease(ctx, events, released)
		select {
		case <-ctx.Done():
		case <-time.After(e.period):
		}
	}
}

// forEachRelease returns when ctx or the watch ends. What a watch begins with is no
// release: a lease that is free then is being asked for already.
func forEachRelease(ctx context.Context, events watch.Interface, released func()) {
	defer events.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case event, ok := <-events.ResultChan():
			if !ok {
				return
			}
			lease, isLease := event.Object.(*coordinationv1.Lease)
			free := isLease && (lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "")
			if event.Type == watch.Deleted || event.Type == watch.Modified && free {
				released()
			}
		}
	}
}
