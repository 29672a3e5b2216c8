package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// lead calls work each time this process holds the lease, until ctx ends; then
// the lease is released. It returns errLeaseLost if the lease is lost before.
func lead(ctx context.Context, client kubernetes.Interface, namespace, identity string, watchdog *leaderelection.HealthzAdaptor, work func()) error {
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Name: leaseName,
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: leaseName},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		},
		LeaseDuration:   leaseDuration,
		RenewDeadline:   renewDeadline,
		RetryPeriod:     retryPeriod,
		ReleaseOnCancel: true,
		WatchDog:        watchdog,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { work() },
			OnStoppedLeading: func() {},
			OnNewLeader: func(leader string) {
				klog.FromContext(ctx).Info("Leader elected", "leader", leader, "self", leader == identity)
			},
		},
	})
	if err != nil {
		return fmt.Errorf("preparing the leader election: %w", err)
	}
	elector.Run(ctx)
	if ctx.Err() == nil {
		return errLeaseLost
	}
	return nil
}
