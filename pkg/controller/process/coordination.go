package process

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/sharding/shards"
)

// coordination reads and writes the objects through which the replicas of an operator coordinate: Leases, and the
// ConfigMap with the layout of the shards.
type coordination struct {
	// lease is the Lease of the leader. All other Leases and the layout are in its namespace.
	lease Lease
	// cluster are further Leases that the leader holds on behalf of its installation. No replica works while another
	// installation holds one of them.
	cluster  []Lease
	operator string // the name of the operator
	identity string // of this replica
	leases   coordinationclient.LeaseInterface
	store    shards.Store
	observer *shards.Observer
	clock    clock.WithTicker
}

func newCoordination(leases []Lease) coordination {
	first := leases[0]
	return coordination{
		lease: first, cluster: leases[1:], operator: first.Name, identity: first.Identity,
		leases:   first.Client.CoordinationV1().Leases(first.Namespace),
		store:    shards.Store{ConfigMaps: first.Client.CoreV1().ConfigMaps(first.Namespace), Operator: first.Name},
		observer: shards.NewObserver(first.Name, clock.RealClock{}),
		clock:    clock.RealClock{},
	}
}

// state has the Leases and the layout, as read from the API server.
type state struct {
	asked   time.Time
	leases  []coordinationv1.Lease
	layout  shards.StoredLayout // read after the Leases
	foreign bool                // another installation holds a Lease of the cluster
}

// readState reads the state. The Leases are read before the layout, because the owner of a shard must use a layout that
// was read after the owner acquired the Lease.
func (c *coordination) readState(ctx context.Context) (s state, err error) {
	ctx, cancel := context.WithTimeout(ctx, renewDeadline)
	defer cancel()
	s.asked = c.clock.Now()
	for _, lease := range c.cluster {
		live, err := lease.Client.CoordinationV1().Leases(lease.Namespace).Get(ctx, lease.Name, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return s, fmt.Errorf("reading the Lease %s/%s: %w", lease.Namespace, lease.Name, err)
		}
		if err == nil && holderOf(live) != "" && otherInstallation(holderOf(live), lease.Identity) {
			s.foreign = true
		}
	}
	if s.leases, err = c.list(ctx); err != nil {
		return s, err
	}
	s.layout, err = c.store.Read(ctx)
	return s, err
}

// list returns the Leases of the leader, the replicas and the shards.
func (c *coordination) list(ctx context.Context) ([]coordinationv1.Lease, error) {
	list, err := c.leases.List(ctx, metav1.ListOptions{LabelSelector: shards.OperatorLabel + "=" + c.operator})
	if err != nil {
		return nil, fmt.Errorf("listing the Leases of the replicas: %w", err)
	}
	return list.Items, nil
}

// acquire makes this replica the owner of a shard. lease is the Lease of the shard as listed, or nil if there was none.
// The precondition of the write is that the Lease has not changed since. After an error, acquire returns nil, and this
// replica may own the shard nevertheless.
func (c *coordination) acquire(
	ctx context.Context, shard int, lease *coordinationv1.Lease,
) (acquired *coordinationv1.Lease) {
	now := ptr.To(metav1.NewMicroTime(c.clock.Now()))
	spec := coordinationv1.LeaseSpec{
		HolderIdentity: &c.identity, AcquireTime: now, RenewTime: now, LeaseTransitions: ptr.To[int32](0),
	}
	var err error
	if lease == nil {
		acquired, err = c.leases.Create(ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{
				Name: shards.LeaseName(c.operator, shard), Labels: map[string]string{shards.OperatorLabel: c.operator},
			}, Spec: spec,
		}, metav1.CreateOptions{})
	} else {
		spec.LeaseTransitions = ptr.To(ptr.Deref(lease.Spec.LeaseTransitions, 0) + 1)
		taken := lease.DeepCopy()
		taken.Spec = spec
		delete(taken.Annotations, shards.OfferedAnnotation)
		acquired, err = c.leases.Update(ctx, taken, metav1.UpdateOptions{})
	}
	if err == nil {
		return acquired
	}
	if apierrors.IsAlreadyExists(err) {
		err = c.unlabelled(ctx, shards.LeaseName(c.operator, shard))
	}
	if err != nil && !apierrors.IsConflict(err) {
		klog.FromContext(ctx).Error(err, "Failed to acquire the Lease of a shard", "shard", shard)
	}
	return nil
}

// unlabelled returns an error if a Lease exists and lacks the label of the operator, so that list omits it.
func (c *coordination) unlabelled(ctx context.Context, name string) error {
	lease, err := c.leases.Get(ctx, name, metav1.GetOptions{})
	if err != nil || lease.Labels[shards.OperatorLabel] == c.operator {
		return nil // the Lease was just created or deleted
	}
	return fmt.Errorf("the Lease %s does not belong to the operator: set the label %s=%s if the operator may use this "+
		"Lease", name, shards.OperatorLabel, c.operator)
}

// releaseIfOwned releases a Lease if this replica holds it as the Lease of a shard. The work on the shard must have
// ended. to is the replica that should take the shard, or "" for any. After an error, the API server may still carry
// out the write.
func (c *coordination) releaseIfOwned(ctx context.Context, lease *coordinationv1.Lease, to string) error {
	if lease == nil || lease.Name == c.operator || lease.Name == shards.ReplicaLeaseName(c.operator, c.identity) ||
		holderOf(lease) != c.identity {
		return nil
	}
	released := lease.DeepCopy()
	released.Spec.HolderIdentity = ptr.To("")
	released.Spec.RenewTime = ptr.To(metav1.NewMicroTime(c.clock.Now()))
	if to != "" {
		metav1.SetMetaDataAnnotation(&released.ObjectMeta, shards.OfferedAnnotation, to)
	}
	if _, err := c.leases.Update(ctx, released, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("releasing the Lease %s: %w", lease.Name, err)
	}
	klog.FromContext(ctx).Info("Released a shard", "lease", lease.Name)
	return nil
}

// clearGone removes the owner from the Lease of a shard, because the owner is gone. It changes nothing if somebody has
// changed the Lease since it was listed. It logs other errors.
func (c *coordination) clearGone(ctx context.Context, lease coordinationv1.Lease) {
	lease.Spec.HolderIdentity, lease.Spec.RenewTime = ptr.To(""), nil // nobody knows when the owner has ended
	if _, err := c.leases.Update(ctx, &lease, metav1.UpdateOptions{}); err != nil && !apierrors.IsNotFound(err) &&
		!apierrors.IsConflict(err) {
		klog.FromContext(ctx).Error(err, "Failed to release the Lease of a replica that no longer runs", "lease", lease.Name)
	}
}

// deleteGone deletes the Lease of a replica that is gone, unless the replica has renewed the Lease. It logs other
// errors.
func (c *coordination) deleteGone(ctx context.Context, lease coordinationv1.Lease) {
	err := c.leases.Delete(ctx, lease.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion},
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		klog.FromContext(ctx).Error(err, "Failed to delete the Lease of a replica that no longer runs", "lease", lease.Name)
	}
}

// watch calls changed when the holder of a Lease may have changed, has confirmed another layout, or stops. It tells the
// observer about all renewals, until ctx ends. If watches fail, replicas only take longer to react.
func (c *coordination) watch(ctx context.Context, changed func()) {
	leases := informers.NewSharedInformerFactoryWithOptions(c.lease.Client, 0,
		informers.WithNamespace(c.lease.Namespace), informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.LabelSelector = shards.OperatorLabel + "=" + c.operator
		})).Coordination().V1().Leases().Informer()
	_, _ = leases.AddEventHandler(cache.ResourceEventHandlerFuncs{ // an informer that has not started accepts handlers
		AddFunc:    func(any) { changed() },
		DeleteFunc: func(any) { changed() },
		UpdateFunc: func(before, after any) {
			was, ok := before.(*coordinationv1.Lease)
			is, too := after.(*coordinationv1.Lease)
			if !ok || !too {
				return
			}
			c.observer.Observe(is)
			confirmed := was.Annotations[shards.ConfirmedAnnotation] != is.Annotations[shards.ConfirmedAnnotation]
			if holderOf(was) != holderOf(is) || confirmed || shards.IsStopping(was) != shards.IsStopping(is) {
				changed()
			}
		},
	})
	leases.RunWithContext(ctx)
}

// holderOf returns the holder of a Lease, or "" if the Lease has none or is nil.
func holderOf(lease *coordinationv1.Lease) string {
	if lease == nil {
		return ""
	}
	return ptr.Deref(lease.Spec.HolderIdentity, "")
}
