package process

import (
	"context"
	"fmt"

	"k8s.io/client-go/kubernetes"

	"windlass.dev/windlass/pkg/sharding/shards"
)

// Lease identifies a Lease that several processes compete for. Lease also has the identity of this process.
type Lease struct {
	Client          kubernetes.Interface
	Namespace, Name string
	// Identity is the unique name of this process: see the function Identity. If it has a slash, the part
	// before the slash is the namespace of the installation.
	Identity string
}

// elections are the elections for the Leases of a process, in the order of their acquisition.
type elections []*election

// newElections returns the elections for Leases. With shards, the first Lease has the label of the Leases through which
// the replicas coordinate. Other installations wait for the last Lease. With shards, this process does not release the
// last Lease, because other replicas of this installation may still work.
func newElections(leases []Lease, sharded bool) (all elections) {
	for i, lease := range leases {
		e := newElection(lease)
		if sharded && i == 0 {
			e.labels = map[string]string{shards.OperatorLabel: lease.Name}
		}
		e.keep.Store(sharded && i == len(leases)-1)
		all = append(all, e)
	}
	return all
}

// check is for /healthz. It returns an error if this process has held a Lease and has not renewed it in time.
func (all elections) check() error {
	for _, e := range all {
		if e.term.over() {
			return fmt.Errorf("the Lease %s/%s: %w", e.Namespace, e.Name, errLeaseLost)
		}
	}
	return nil
}

// elect acquires the Leases in order, and calls work when it holds all of them. When ctx ends, elect releases the
// Leases and returns nil. When a Lease is lost, elect returns the error at once and releases no Lease, because
// reconciles may still be in flight.
func elect(ctx context.Context, elections elections, work func()) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(errAbandoned)
	ended := make(chan error, len(elections))
	turn := make(chan struct{}) // each election waits until the one before it holds its Lease
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
