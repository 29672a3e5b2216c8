package process

import (
	"context"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

// leaseWatch watches a Lease to notice at once when the Lease becomes free. A candidate does not read the Lease while
// the watch shows that another process renews it. Without a working watch the election only takes longer.
type leaseWatch struct {
	leases   coordinationclient.LeaseInterface
	name     string        // of the Lease
	identity string        // of this process
	period   time.Duration // between two watches
	clock    clock.Clock
	renewal  atomic.Pointer[renewal] // the latest event, if it is a renewal by another process, or nil
}

// renewal is an event in which the holder of a Lease has renewed it.
type renewal struct {
	lease *coordinationv1.Lease
	at    time.Time // when this process received the event
}

// renewed returns the Lease if another process was seen to renew it within a time, and nil otherwise.
func (w *leaseWatch) renewed(within time.Duration) *coordinationv1.Lease {
	last := w.renewal.Load()
	if last == nil || w.clock.Since(last.at) >= within {
		return nil
	}
	return last.lease
}

// open starts a watch. After an error it returns a watch that ends at once.
func (w *leaseWatch) open(ctx context.Context) watch.Interface {
	events, err := w.leases.Watch(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", w.name).String(),
	})
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Failed to watch the Lease", "err", err)
		return watch.NewEmptyWatch()
	}
	return events
}

// run calls free each time the Lease becomes free, until ctx ends. events is the first watch.
func (w *leaseWatch) run(ctx context.Context, events watch.Interface, free func()) {
	for {
		w.follow(ctx, events, free)
		select {
		case <-ctx.Done():
			return
		case <-w.clock.After(w.period):
			events = w.open(ctx)
		}
	}
}

// follow calls free each time the watch reports that the Lease was released or deleted. It releases the Lease if
// another holder of the same installation does not renew it in time. It returns when ctx or the watch ends. It does not
// call free for an Added event, because the elector itself acquires a Lease that is free at the start of the watch.
func (w *leaseWatch) follow(ctx context.Context, events watch.Interface, free func()) {
	defer events.Stop()
	defer w.renewal.Store(nil)
	var lease *coordinationv1.Lease
	var expired <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-expired:
			w.release(ctx, lease)
		case event, ok := <-events.ResultChan():
			if !ok {
				return
			}
			seen, ok := event.Object.(*coordinationv1.Lease)
			if ok && seen.Name != w.name {
				continue // from a fake clientset, which ignores field selectors
			}
			holder, before := "", lease
			if lease = seen; ok {
				holder = holderOf(lease)
			}
			if event.Type == watch.Deleted || event.Type == watch.Modified && holder == "" {
				free()
			}
			w.renewal.Store(nil)
			if event.Type == watch.Modified && holder != "" && holder != w.identity && isRenewed(before, lease) {
				w.renewal.Store(&renewal{lease, w.clock.Now()})
			}
			expired = nil
			if holder != "" && holder != w.identity && !otherInstallation(holder, w.identity) {
				expired = w.clock.After(time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second)
			}
		}
	}
}

// isRenewed reports whether the holder of a Lease has renewed the Lease since before. An Added event at the start of a
// watch, or a change of the metadata by somebody else, is no sign that the holder still runs.
func isRenewed(before, lease *coordinationv1.Lease) bool {
	return before != nil && !before.Spec.RenewTime.Equal(lease.Spec.RenewTime)
}

// releaseIfHeld releases the Lease if this process holds it. It takes at most limit, and works even though
// ctx has ended.
func (w *leaseWatch) releaseIfHeld(ctx context.Context, limit time.Duration) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	lease, err := w.leases.Get(ctx, w.name, metav1.GetOptions{})
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Failed to read the Lease", "err", err)
		return
	}
	if holderOf(lease) == w.identity {
		w.release(ctx, lease)
	}
}

// release releases a Lease that this process holds, or that its holder has not renewed in time. The
// resource version of lease is a precondition: release fails if the holder has renewed it since.
func (w *leaseWatch) release(ctx context.Context, lease *coordinationv1.Lease) {
	released := lease.DeepCopy()
	released.Spec.HolderIdentity = ptr.To("")
	if _, err := w.leases.Update(ctx, released, metav1.UpdateOptions{}); err != nil {
		klog.FromContext(ctx).V(2).Info("Failed to release the Lease", "err", err)
		return
	}
	klog.FromContext(ctx).Info("Released the Lease", "holder", *lease.Spec.HolderIdentity)
}
