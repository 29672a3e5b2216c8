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

	"windlass.dev/windlass/pkg/sharding/shards"
)

// presence is the Lease of this replica. It shows the other replicas that this replica runs, and which layout this
// replica has confirmed. The Leases of its shards are valid as long as this Lease is valid. The name of the Lease is
// unique to this process, so that no other process holds the Lease.
type presence struct {
	leases   coordinationclient.LeaseInterface
	operator string
	identity string
	clock    clock.Clock
	term     *term

	mu        sync.Mutex
	confirmed string
	stopping  bool
	lease     *coordinationv1.Lease // the last response of the API server, or nil
}

// run renews the Lease until ctx ends, and then returns nil. It returns an error when the Lease is lost.
func (p *presence) run(ctx context.Context) error {
	for {
		err := p.renew(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case p.lost() || p.deleted(err):
			return fmt.Errorf("the Lease of this replica: %w", errLeaseLost)
		case err != nil:
			klog.FromContext(ctx).Error(err, "Failed to renew the Lease of this replica")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-p.clock.After(retryPeriod):
		}
	}
}

// lost reports whether this replica has not renewed its Lease in time.
func (p *presence) lost() bool { return p.term.begun() && !p.term.acts() }

// deleted reports whether err says that somebody has deleted the Lease. Other replicas then acquire the shards of this
// replica.
func (p *presence) deleted(err error) bool { return apierrors.IsNotFound(err) && p.term.begun() }

// confirm writes the ID of a layout into the Lease. It confirms that this replica has stopped all work with earlier
// layouts. An empty ID withdraws the confirmation. confirm returns nil only if the API server has stored the ID.
func (p *presence) confirm(ctx context.Context, layout string) error {
	p.mu.Lock()
	p.confirmed = layout
	p.mu.Unlock()
	return p.renew(ctx)
}

// stop marks the Lease, so that the other replicas know that this replica releases its shards and acquires no more. If
// stop fails, the next renewal writes the mark.
func (p *presence) stop(ctx context.Context) {
	p.mu.Lock()
	p.stopping = true
	p.mu.Unlock()
	if err := p.renew(ctx); err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "Failed to mark this replica as stopping")
	}
}

// renew creates the Lease the first time, and updates it after that. It does not create a deleted Lease again. It
// returns errLeaseLost if the Lease was not renewed in time.
func (p *presence) renew(ctx context.Context) (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	sent := p.clock.Now()
	if p.lost() {
		return errLeaseLost
	}
	ctx, cancel := context.WithTimeout(ctx, renewDeadline)
	defer cancel()
	name, stored := shards.ReplicaLeaseName(p.operator, p.identity), p.lease
	if stored == nil {
		stored, err = p.leases.Create(ctx, p.with(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}),
			metav1.CreateOptions{})
	} else {
		stored, err = p.leases.Update(ctx, p.with(stored), metav1.UpdateOptions{})
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		// The response to an earlier write was lost, or somebody has changed the Lease.
		if stored, err = p.leases.Get(ctx, name, metav1.GetOptions{}); err == nil {
			stored, err = p.leases.Update(ctx, p.with(stored), metav1.UpdateOptions{})
		}
	}
	if err != nil {
		return fmt.Errorf("renewing the Lease %s of this replica: %w", name, err)
	}
	p.lease = stored
	p.term.renew(sent)
	return nil
}

// with returns a copy of the Lease with the state of this replica.
func (p *presence) with(lease *coordinationv1.Lease) *coordinationv1.Lease {
	lease = lease.DeepCopy()
	metav1.SetMetaDataLabel(&lease.ObjectMeta, shards.OperatorLabel, p.operator)
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, shards.ConfirmedAnnotation, p.confirmed)
	if p.stopping {
		metav1.SetMetaDataAnnotation(&lease.ObjectMeta, shards.StoppingAnnotation, "true")
	}
	lease.Spec.HolderIdentity = ptr.To(p.identity)
	lease.Spec.LeaseDurationSeconds = ptr.To(int32(shards.LeaseDuration / time.Second))
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
	err := p.leases.Delete(ctx, p.lease.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &p.lease.UID},
	})
	if err != nil && !apierrors.IsNotFound(err) {
		klog.FromContext(ctx).V(2).Info("Failed to delete the Lease of this replica", "err", err)
	}
}
