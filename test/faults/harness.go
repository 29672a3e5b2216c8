package faults

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"windlass.dev/windlass/test/postgres"
)

// harness runs scenarios on one API server and one PostgreSQL server.
type harness struct {
	observer *observer
	bridge   *bridge
	postgres *postgres.Server
	runs     atomic.Int64
}

// carriers is how many requests are under way at once.
const carriers = 32

func newHarness(ctx context.Context, config *rest.Config, server *postgres.Server) (*harness, error) {
	o, err := newObserver(ctx, config)
	if err != nil {
		return nil, err
	}
	return &harness{observer: o, bridge: newBridge(o, carriers), postgres: server}, nil
}

// scopeOf is the namespace of a run, and part of what else is named for it. It is replaced
// wherever it stands, so it must not come about by chance: of 14,000 runs, one had a UID
// that began with its own scope when that was a hexadecimal number.
func scopeOf(run int64) string { return fmt.Sprintf("r%05d", run) }

// do runs a scenario with the fault of a plan, in a scope of its own.
func (h *harness) do(t *testing.T, s *scenario, p plan) (o outcome, journal string) {
	t.Helper()
	scope := scopeOf(h.runs.Add(1))
	r := &run{
		bridge: h.bridge, scenario: s, plan: p, scope: scope, history: h.observer.open(scope), clock: &shiftedClock{},
		injector: injector{plan: p}, seen: map[string]int{}, outcome: outcome{writers: map[string]int{}},
	}
	defer h.observer.forget(scope)
	if s.sql {
		var err error
		if r.sql, err = newSQLServer(r, h.postgres); err != nil {
			t.Fatal(err)
		}
	}
	h.inBubble(t, r)
	if err := h.observer.failure(); err != nil {
		t.Fatal(err)
	}
	r.finish(h.outside(t, r))
	return r.outcome, r.journal.String()
}

// inBubble has a run live. A bubble that cannot go on, or in which somebody is left,
// panics.
func (h *harness) inBubble(t *testing.T, r *run) {
	t.Helper()
	now := time.Now()
	defer func() {
		if left := recover(); left != nil {
			r.violate("%v", left)
		}
	}()
	synctest.Test(t, func(*testing.T) { r.live(now) })
}

// outside is what a run has left on the PostgreSQL server, from where it is removed.
func (h *harness) outside(t *testing.T, r *run) map[string]string {
	t.Helper()
	if r.sql == nil {
		return nil
	}
	state, err := r.sql.state(t.Context(), r.scope)
	if err != nil {
		r.violate("looking at the server: %v", err)
	}
	if err := r.sql.close(t.Context(), r.scope); err != nil {
		r.violate("cleaning up the server: %v", err)
	}
	return state
}
