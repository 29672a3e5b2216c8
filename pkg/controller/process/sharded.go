package process

import (
	"context"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/controller/shards"
)

// coordinate runs an instance of the operator for each shard that this process works on, until ctx ends: see coordinator.run.
func (p *process) coordinate(ctx context.Context, s Sharding) error {
	of := s.Lease
	c := &coordinator{
		Sharding: s,
		workers:  p.workers,
		working:  p.ctx,
		store:    shards.Store{ConfigMaps: of.Client.CoreV1().ConfigMaps(of.Namespace), Operator: of.Name},
		observer: shards.NewObserver(of.Name, clock.RealClock{}),
		presence: &presence{leases: of.Client.CoordinationV1().Leases(of.Namespace), operator: of.Name, identity: of.Identity, clock: clock.RealClock{}},
		clock:    clock.RealClock{},
		held:     map[int]*holding{},
		lost:     make(chan error, shards.Max),
	}
	c.started, c.elect = p.follow, func(ctx context.Context, shard int, acquired func()) error {
		lease := of
		lease.Name = shards.LeaseName(of.Name, shard)
		e := newElection(lease, newWatchdog())
		e.labels = map[string]string{shards.OperatorLabel: of.Name}
		if s.adjust != nil {
			s.adjust(e)
		}
		p.watched.add(e)
		defer p.watched.remove(e)
		return e.run(ctx, acquired)
	}
	ended := make(chan struct{})
	defer close(ended)
	p.working.Go(func() { // so that live does not release the Leases before the last instance has ended
		select {
		case <-p.ctx.Done():
			c.stop()
		case <-ended:
		}
	})
	result := make(chan error, 1)
	go func() { result <- c.run(ctx, changes(ctx, of)) }()
	select {
	case err := <-c.lost:
		return err
	case err := <-result:
		return err
	}
}

// follow counts an instance among the running ones until it ends.
func (p *process) follow(i *instance) {
	p.mu.Lock()
	p.instances = append(p.instances, i)
	p.mu.Unlock()
	p.working.Go(func() {
		<-i.ended
		p.mu.Lock()
		defer p.mu.Unlock()
		p.instances = slices.DeleteFunc(p.instances, func(other *instance) bool { return other == i })
	})
}

// changes returns a channel that has a value when a Lease of an operator may have another holder, or another layout
// confirmed. Without a working watch, replicas only take longer to react.
func changes(ctx context.Context, of Lease) <-chan struct{} {
	changed := make(chan struct{}, 1)
	notify := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	leases := informers.NewSharedInformerFactoryWithOptions(of.Client, 0, informers.WithNamespace(of.Namespace), informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.LabelSelector = shards.OperatorLabel + "=" + of.Name
	})).Coordination().V1().Leases().Informer()
	_, _ = leases.AddEventHandler(cache.ResourceEventHandlerFuncs{ // an informer that has not started refuses no handler
		AddFunc:    func(any) { notify() },
		DeleteFunc: func(any) { notify() },
		UpdateFunc: func(before, after any) {
			if said(before) != said(after) {
				notify()
			}
		},
	})
	go leases.RunWithContext(ctx)
	return changed
}

// said is the part of a Lease that does not change when it is renewed.
func said(lease any) (content struct{ holder, confirmed string }) {
	if lease, ok := lease.(*coordinationv1.Lease); ok {
		content.holder, content.confirmed = ptr.Deref(lease.Spec.HolderIdentity, ""), lease.Annotations[shards.ConfirmedAnnotation]
	}
	return content
}
