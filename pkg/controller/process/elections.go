package main

import (
	"cmp"
	"context"
	"net/http"

	"k8s.io/client-go/tools/leaderelection"

	"windlass.dev/windlass/cmd/controller/operator"
)

// newElections returns the elections for the Leases that this process must hold to work, in the
// order in which it acquires them.
//
// An operator of the whole cluster needs two Leases. The first is in the namespace of its Pods:
// earlier versions use it too, so that an upgrade never has two leaders. The second is in
// --cluster-lease-namespace: it keeps two installations from working in one cluster.
//
// An operator with --namespace needs one Lease, in the namespace that it works in. Operators of
// different namespaces work side by side. --leader-election-namespace moves the first Lease.
func newElections(c operator.Clients, o *options, namespace, identity string) []*election {
	if o.kinds.Namespace != "" {
		own := cmp.Or(o.electionNamespace, o.kinds.Namespace)
		return []*election{newElection(c.Lease, own, identity, newWatchdog())}
	}
	own := cmp.Or(o.electionNamespace, namespace)
	elections := []*election{newElection(c.Lease, own, identity, newWatchdog())}
	if own == o.clusterLeaseNamespace {
		return elections // it is the same Lease
	}
	// The namespace tells those who wait which installation they wait for.
	return append(elections, newElection(c.Lease, o.clusterLeaseNamespace, own+"/"+identity, newWatchdog()))
}

func newWatchdog() *leaderelection.HealthzAdaptor {
	return leaderelection.NewLeaderHealthzAdaptor(leaseDuration)
}

// watched fails if one of the Leases is held here and was not renewed in time. It is for
// /healthz.
func watched(elections []*election) func(*http.Request) error {
	return func(r *http.Request) error {
		for _, e := range elections {
			if err := e.watchdog.Check(r); err != nil {
				return err
			}
		}
		return nil
	}
}

// elect acquires the Leases in order, and calls work when it holds all of them. When ctx ends, it
// releases them and returns nil. When a Lease is lost, it returns that error at once and releases
// no Lease, since work may still be going on.
func elect(ctx context.Context, elections []*election, work func()) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(errAbandoned)
	ended := make(chan error, len(elections))
	turn := make(chan struct{})
	close(turn)
	for i, e := range elections {
		mine, next := turn, make(chan struct{})
		held := func() { close(next) }
		if i == len(elections)-1 {
			held = work
		}
		go func() {
			select {
			case <-mine:
				ended <- e.run(ctx, held)
			case <-ctx.Done():
				ended <- nil
			}
		}()
		turn = next
	}
	for range elections {
		if err := <-ended; err != nil {
			return err
		}
	}
	return nil
}
