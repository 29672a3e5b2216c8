package main

import (
	"context"
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

// leaseWatch sees when the lease becomes free. Where it cannot watch, nothing is
// lost but time.
type leaseWatch struct {
	leases coordinationclient.LeaseInterface
	period time.Duration // between two watches
	clock  clock.Clock
}

// open begins a watch.
func (w *leaseWatch) open(ctx context.Context) watch.Interface {
	events, err := w.leases.Watch(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", leaseName).String(),
	})
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Watching the lease failed", "err", err)
		return watch.NewEmptyWatch()
	}
	return events
}

// run calls free whenever the lease has become so, until ctx ends.
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

// follow returns when ctx or the watch ends. What a watch begins with is no
// release: a lease that is free then is being asked for already.
func (w *leaseWatch) follow(ctx context.Context, events watch.Interface, free func()) {
	defer events.Stop()
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
			held := false
			if lease, held = event.Object.(*coordinationv1.Lease); held {
				held = ptr.Deref(lease.Spec.HolderIdentity, "") != ""
			}
			if event.Type == watch.Deleted || event.Type == watch.Modified && !held {
				free()
			}
			expired = nil
			if held {
				expired = w.clock.After(time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second)
			}
		}
	}
}

// release gives back the lease of a process that has not renewed it in time, as
// that would have done itself. The resource version makes sure that it has not
// done so meanwhile.
func (w *leaseWatch) release(ctx context.Context, lease *coordinationv1.Lease) {
	given := lease.DeepCopy()
	given.Spec.HolderIdentity = ptr.To("")
	if _, err := w.leases.Update(ctx, given, metav1.UpdateOptions{}); err != nil {
		klog.FromContext(ctx).V(2).Info("Giving back an expired lease failed", "err", err)
		return
	}
	klog.FromContext(ctx).Info("Gave back an expired lease", "holder", *lease.Spec.HolderIdentity)
}
