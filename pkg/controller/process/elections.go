package process

import (
	"context"
	"net/http"
	"slices"
	"sync"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
)

// Lease identifies a Lease that several processes compete for, and this process among them.
type Lease struct {
	Client          kubernetes.Interface
	Namespace, Name string
	// Identity is the unique name of this process: see the function Identity. If it has a slash, the part
	// before the slash is the namespace of the installation, for the log.
	Identity string
}

func newElections(leases []Lease) (all []*election) {
	for _, lease := range leases {
		all = append(all, newElection(lease, newWatchdog()))
	}
	return all
}

func newWatchdog() *leaderelection.HealthzAdaptor {
	return leaderelection.NewLeaderHealthzAdaptor(leaseDuration)
}

// watched checks for /healthz: it fails if this process holds a Lease and has not renewed it in time.
type watched struct {
	mu  sync.Mutex
	all []*election
}

func (w *watched) add(elections ...*election) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, elections...)
}

// remove forgets an election that has ended.
func (w *watched) remove(e *election) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = slices.DeleteFunc(w.all, func(other *election) bool { return other == e })
}

func (w *watched) check(r *http.Request) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.all {
		if err := e.watchdog.Check(r); err != nil {
			return err
		}
	}
	return nil
}

// elect acquires the Leases in order, and calls work when it holds all of them. When ctx ends, it
// releases them and returns nil. When a Lease is lost, it returns the error at once and releases no
// Lease, because reconciles may still be in flight.
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
