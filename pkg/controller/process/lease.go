package process

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

func (e *election) leases() coordinationclient.LeaseInterface {
	return e.Client.CoordinationV1().Leases(e.Namespace)
}

// open starts a watch of the Lease. If the request fails, open logs the error and returns a watch that ends at once.
func (e *election) open(ctx context.Context) watch.Interface {
	events, err := e.leases().Watch(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", e.Name).String(),
	})
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Failed to watch the Lease", "err", err)
		return watch.NewEmptyWatch()
	}
	return events
}

// watch calls free each time the Lease becomes free, until ctx ends. events is the first watch. When a watch ends,
// another one follows after the retry period. If watches fail, the election takes longer.
func (e *election) watch(ctx context.Context, events watch.Interface, free func()) {
	for {
		e.follow(ctx, events, free)
		select {
		case <-ctx.Done():
			return
		case <-e.clock.After(e.period):
			events = e.open(ctx)
		}
	}
}

// follow calls free each time an event reports that the Lease was released or deleted. It releases the Lease if another
// holder of the same installation does not renew it in time. It returns when ctx or the watch ends. It does not call
// free for an Added event, because the elector itself acquires a Lease that is free at the start of the watch.
func (e *election) follow(ctx context.Context, events watch.Interface, free func()) {
	defer events.Stop()
	var lease *coordinationv1.Lease
	var expired <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-expired:
			e.releaseUnchanged(ctx, lease)
		case event, ok := <-events.ResultChan():
			if !ok {
				return
			}
			seen, ok := event.Object.(*coordinationv1.Lease)
			if !ok || seen.Name != e.Name { // a fake clientset ignores field selectors
				continue
			}
			lease, expired = seen, nil
			holder := holderOf(lease)
			if event.Type == watch.Deleted || event.Type == watch.Modified && holder == "" {
				free()
			} else if holder != "" && holder != e.Identity && !otherInstallation(holder, e.Identity) {
				expired = e.clock.After(time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second)
			}
		}
	}
}

// releaseIfHeld releases the Lease if this process holds it, even if ctx has ended.
func (e *election) releaseIfHeld(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.deadline)
	defer cancel()
	lease, err := e.leases().Get(ctx, e.Name, metav1.GetOptions{})
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Failed to read the Lease", "err", err)
		return
	}
	if holderOf(lease) == e.Identity {
		e.releaseUnchanged(ctx, lease)
	}
}

// releaseUnchanged releases a Lease that this process holds, or that its holder has not renewed in time. The resource
// version of lease is a precondition: the API server rejects the write if the holder has renewed the Lease.
// releaseUnchanged logs errors.
func (e *election) releaseUnchanged(ctx context.Context, lease *coordinationv1.Lease) {
	released := lease.DeepCopy()
	released.Spec.HolderIdentity = ptr.To("")
	if _, err := e.leases().Update(ctx, released, metav1.UpdateOptions{}); err != nil {
		klog.FromContext(ctx).V(2).Info("Failed to release the Lease", "err", err)
		return
	}
	klog.FromContext(ctx).Info("Released the Lease", "holder", *lease.Spec.HolderIdentity)
}
