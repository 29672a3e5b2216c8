package main

import (
	"cmp"
	"context"
	"net/http"

	"k8s.io/client-go/tools/leaderelection"

	"windlass.dev/windlass/cmd/controller/operator"
)

// elections are the Leases that this process has to hold at once to work, in the order in which
// it asks for them: that of its installation, and, unless it is limited to a namespace, that
// of the whole cluster. The first one is the one that all versions know, so that an upgrade
// never has two leaders; the second one keeps two installations from working in one cluster.
// Operators that are limited to different namespaces do not get in each other's way, so that
// the Lease of each is in the namespace that it works in.
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

// elect calls work once this process holds all Leases. It asks for each one when it holds the
// one before. It returns nil when ctx has ended and all are given back, and the error of
// the first one that is lost: then none is given back, since work may still be going on.
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
