package faults

import (
	"context"
	"fmt"
	"maps"
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

// concurrentCalls is how many requests to the API server can be in progress at the same time.
const concurrentCalls = 32

func newHarness(ctx context.Context, config *rest.Config, server *postgres.Server) (*harness, error) {
	o, err := newObserver(ctx, config)
	if err != nil {
		return nil, err
	}
	return &harness{observer: o, bridge: newBridge(o, concurrentCalls), postgres: server}, nil
}

// namespaceOf returns the namespace of a run, which is also part of the names of the run's cluster-scoped and SQL
// objects. Comparisons of runs replace the namespace in all texts, so no other text may contain it by chance. The
// namespace begins with r, which no UID contains: in one of 14,000 runs, a hexadecimal number was the start of a UID.
func namespaceOf(run int64) string { return fmt.Sprintf("r%05d", run) }

// runScenario runs a scenario in its own namespace, with the fault of a plan, and returns the outcome and the log.
func (h *harness) runScenario(t *testing.T, s *scenario, p plan) (o outcome, log string) {
	t.Helper()
	namespace := namespaceOf(h.runs.Add(1))
	r := &run{
		bridge: h.bridge, scenario: s, plan: p, namespace: namespace, history: h.observer.startHistory(namespace),
		clock:    &shiftedClock{},
		injector: injector{plan: p}, idCounts: map[string]int{}, outcome: outcome{writes: map[string]int{}},
	}
	defer h.observer.endHistory(namespace)
	r.servers = newPodServers(r)
	if s.sql {
		var err error
		if r.sql, err = newSQLServer(r, h.postgres); err != nil {
			t.Fatal(err)
		}
	}
	h.runInBubble(t, r)
	if err := h.observer.failure(); err != nil {
		t.Fatal(err)
	}
	state := r.servers.state(r.end)
	maps.Copy(state, h.sqlState(t, r))
	r.collectOutcome(state)
	return r.outcome, r.logBuffer.String()
}

// runInBubble executes a run in a bubble. A panic is a violation: synctest panics after a deadlock in the bubble, and
// if a goroutine is left over.
func (h *harness) runInBubble(t *testing.T, r *run) {
	t.Helper()
	now := time.Now()
	defer func() {
		if panicked := recover(); panicked != nil {
			r.addViolation("%v", panicked)
		}
	}()
	synctest.Test(t, func(*testing.T) { r.execute(now) })
}

// sqlState returns the objects of a run on the PostgreSQL server, and removes them from the server. It returns nil if
// the scenario needs no server.
func (h *harness) sqlState(t *testing.T, r *run) map[string]string {
	t.Helper()
	if r.sql == nil {
		return nil
	}
	state, err := r.sql.state(t.Context(), r.namespace)
	if err != nil {
		r.addViolation("reading the state of the PostgreSQL server: %v", err)
	}
	if err := r.sql.close(t.Context(), r.namespace); err != nil {
		r.addViolation("removing the objects of the run from the PostgreSQL server: %v", err)
	}
	return state
}
