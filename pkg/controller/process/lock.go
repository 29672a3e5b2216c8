package process

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// lock is the Lease of an election. The elector of client-go reads and writes the Lease through lock. Unlike the
// elector, lock ends the election if this process renews the Lease too late, or finds that another process holds the
// Lease. In the meantime, another process may have held and released the Lease.
type lock struct {
	resourcelock.Interface
	term *term
	lost func() // ends the election
	// previous is the holder that this process found before it acquired the Lease, or "".
	previous string
}

// Get implements resourcelock.Interface.
//
// Get returns a Lease of the cluster as free if another replica of the same installation holds it, so that the elector
// acquires the Lease at once. This process holds the Lease of the installation, so the other replica no longer works
// or, with shards, no longer leads. In such a Lease, the identity of a holder is for example
// windlass-system/windlass-controller-5d4f_0b6c.
func (l *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err != nil || record.HolderIdentity == l.Identity() {
		return record, raw, err
	}
	if l.term.begun() {
		l.lost()
		return nil, nil, fmt.Errorf("the Lease is held by %q now: %w", record.HolderIdentity, errLeaseLost)
	}
	l.previous = record.HolderIdentity
	if installationOf(l.previous) != "" && !l.fromOther() { // only a Lease of the cluster has such identities
		record.HolderIdentity = ""
	}
	return record, raw, nil
}

// Create implements resourcelock.Interface.
func (l *lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.renew(ctx, func(ctx context.Context) error { return l.Interface.Create(ctx, record) })
}

// Update implements resourcelock.Interface.
func (l *lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.renew(ctx, func(ctx context.Context) error { return l.Interface.Update(ctx, record) })
}

// renew writes the Lease. If ctx is canceled, renew waits for the response. The API server could carry out a canceled
// request after election.releaseIfHeld has read the Lease, and the Lease would then stay held.
func (l *lock) renew(ctx context.Context, write func(context.Context) error) error {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(renewDeadline)
	}
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	defer cancel()
	sent := l.term.clock.Now()
	if l.term.over() {
		l.lost()
		return errLeaseLost
	}
	err := write(ctx)
	if err == nil {
		l.term.renew(sent)
	}
	return err
}

// fromOther reports whether another installation held the Lease before this process, and did not release it.
func (l *lock) fromOther() bool {
	return l.previous != "" && otherInstallation(l.previous, l.Identity())
}

// installationOf returns the namespace of the installation in the identity of a holder, or "" if the identity has none:
// see Lease.Identity.
func installationOf(identity string) string {
	installation, _, ok := strings.Cut(identity, "/")
	if !ok {
		return ""
	}
	return installation
}

func otherInstallation(a, b string) bool { return installationOf(a) != installationOf(b) }
