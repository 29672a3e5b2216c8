package process

import (
	"context"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/controller/shards"
)

// presence is the Lease with which a replica shows the other replicas that it runs, and which layout it has confirmed. Its name
// is unique to this process, so that nobody else holds it.
type presence struct {
	leases   coordinationclient.LeaseInterface
	operator string
	identity string
	clock    clock.Clock

	mu        sync.Mutex
	confirmed string
	lease     *coordinationv1.Lease // the last response of the API server, or nil
}

// run renews the Lease until ctx ends.
func (p *presence) run(ctx context.Context) {
	for {
		if err := p.renew(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).V(2).Info("Failed to renew the Lease of this replica", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-p.clock.After(retryPeriod):
		}
	}
}

// confirm confirms a layout: this replica has stopped all work with earlier layouts. It returns nil when the API server has
// stored that.
func (p *presence) confirm(ctx context.Context, layout string) error {
	p.mu.Lock()
	p.confirmed = layout
	p.mu.Unlock()
	return p.renew(ctx)
}

// renew creates or updates the Lease.
func (p *presence) renew(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, renewDeadline)
	defer cancel()
	p.mu.Lock()
	defer p.mu.Unlock()
	name := shards.ReplicaLeaseName(p.operator, p.identity)
	if p.lease == nil {
		p.lease, err = p.leases.Create(ctx, p.with(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}), metav1.CreateOptions{})
	} else {
		p.lease, err = p.leases.Update(ctx, p.with(p.lease), metav1.UpdateOptions{})
	}
	if err == nil {
		return nil
	}
	p.lease = nil
	if live, failed := p.leases.Get(ctx, name, metav1.GetOptions{}); failed == nil {
		p.lease = live // the response to an earlier write was lost, or somebody has changed the Lease
	}
	return fmt.Errorf("renewing the Lease %s of this replica: %w", name, err)
}

// with returns a copy of the Lease with the state of this replica.
func (p *presence) with(lease *coordinationv1.Lease) *coordinationv1.Lease {
	lease = lease.DeepCopy()
	metav1.SetMetaDataLabel(&lease.ObjectMeta, shards.OperatorLabel, p.operator)
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, shards.ConfirmedAnnotation, p.confirmed)
	lease.Spec.HolderIdentity = ptr.To(p.identity)
	lease.Spec.LeaseDurationSeconds = ptr.To(int32(leaseDuration / time.Second))
	lease.Spec.RenewTime = ptr.To(metav1.NewMicroTime(p.clock.Now()))
	return lease
}

// remove deletes the Lease, so that the other replicas take over at once.
func (p *presence) remove(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), renewDeadline)
	defer cancel()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lease == nil {
		return
	}
	err := p.leases.Delete(ctx, p.lease.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &p.lease.UID}})
	if err != nil && !apierrors.IsNotFound(err) {
		klog.FromContext(ctx).V(2).Info("Failed to delete the Lease of this replica", "err", err)
	}
}
