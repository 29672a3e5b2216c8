package postgresql

import (
	"context"
	"maps"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// awayFor is how long the gate rejects visits to a server that did not respond. If the server has never responded,
	// and the visit took no longer than quick, this time begins with soonest: see known.awayFor.
	awayFor = 30 * time.Second
	soonest = time.Second
	quick   = time.Second
	// patience is how long callers may wait for a server that responded to its last request, before the gate
	// rejects further callers.
	patience = time.Second
	// slowAfter is how long a visit without a slot may take. Then the visit continues only if it gets a slot.
	slowAfter = 5 * time.Second
	// longestUnproven is the timeout of a visit that begins with a slot. The timeout is longest if the last visit
	// to that server timed out, because a statement may need that long, or if the visit gets its slot later.
	longestUnproven, longest = 15 * time.Second, 40 * time.Second
	// struckFor is the period in which every visit of a tenant needs a slot, after a visit of the tenant to a
	// proven server took longer than slowAfter.
	struckFor = 5 * time.Minute
	// slotsOfTenant is how many slots a tenant can have. After a slow or failed visit with a slot, the tenant
	// can have only one.
	slotsOfTenant = 2
	// busyBase is the first retry delay of a caller that waits for other callers of its tenant. Delays grow
	// up to busyLimit, and vary by a quarter. A tenant that has not retried for ticketLife loses its turn.
	busyBase, busyLimit, ticketLife = time.Second, 8 * time.Second, 15 * time.Second
	// turnBase is the time between the retries of callers of one tenant, if the tenant waits for a slot.
	turnBase = 250 * time.Millisecond
	// forgetAfter is how long a server without visits is remembered. It is longer than the resync interval.
	forgetAfter, pruneEvery = 15 * time.Minute, time.Minute
	// maxServersOfTenant limits how many servers of a tenant are remembered. The gate keeps servers with current visits,
	// so that the number can exceed the limit a little.
	maxServersOfTenant = 64
)

// gate prevents slow and silent servers from occupying all workers. It remembers each server separately for each
// tenant.
//
// A server is proven if its last visit took at most slowAfter and the server responded to its last request.
// A visit to any other server needs one of a few slots. Tenants take turns with the slots. Tenants whose
// last visit with a slot was slow or failed come last. Other tenants therefore wait for at most one
// visit of such a tenant in each slot.
type gate struct {
	slots int

	mu      sync.Mutex
	taken   int // the number of slots in use
	tenants map[string]*tenant
	pruned  time.Time
}

// known is what the gate knows about a server.
type known struct {
	proven  bool
	cut     bool      // the last visit timed out
	answers bool      // the server responded to the last request
	callers int       // the number of current visits
	since   time.Time // the end of the last request, or the arrival of the first caller
	until   time.Time // until then the gate rejects all visits
	// responded says that the server has responded before. silentSince is when its silence began, or zero.
	responded   bool
	silentSince time.Time
	silence     error // the error with which the gate rejects them
	used        time.Time
}

// tenant is a namespace whose objects name servers.
type tenant struct {
	servers map[string]*known // by address
	slots   int
	bad     bool      // the last visit with a slot was slow or failed
	struck  time.Time // until then each visit needs a slot
	took    time.Time // when the tenant got its last slot
	// waits is when the tenant began to wait for a slot, or zero. came is when it last asked for a slot.
	waits, came time.Time
	next        time.Time // when the last of its waiting callers retries
}

func newGate(slots int) *gate {
	return &gate{slots: slots, tenants: map[string]*tenant{}}
}

// enter admits a caller or returns an error. An admitted caller must call leave at the end.
func (g *gate) enter(namespace, address string) (*visit, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	g.prune(now)
	server, who := g.of(namespace, address)
	server.used = now
	switch {
	case now.Before(server.until):
		return nil, server.silence
	case server.callers > 0 && (!server.answers || now.Sub(server.since) > patience):
		return nil, later(now.Sub(server.since))
	}
	v := &visit{gate: g, server: server, tenant: who, began: now}
	limit := slowAfter
	if !server.proven || now.Before(who.struck) {
		if err := g.take(v, now); err != nil {
			return nil, err
		}
		if limit = longestUnproven; server.cut {
			limit = longest
		}
	}
	if server.callers == 0 {
		server.since = now
	}
	server.callers++
	v.ctx, v.end = context.WithCancelCause(context.Background())
	v.timer = time.AfterFunc(limit, v.overdue)
	return v, nil
}

// of returns what the gate knows about a server and its tenant. If there are too many servers, the gate forgets the
// servers of the tenant that have no visits.
func (g *gate) of(namespace, address string) (*known, *tenant) {
	who := g.tenants[namespace]
	if who == nil {
		who = &tenant{servers: map[string]*known{}}
		g.tenants[namespace] = who
	}
	server := who.servers[address]
	if server == nil {
		if len(who.servers) >= maxServersOfTenant {
			maps.DeleteFunc(who.servers, func(_ string, other *known) bool { return other.callers == 0 })
		}
		server = &known{}
		who.servers[address] = server
	}
	return server, who
}

// prune forgets servers and tenants that have no visits and whose state does not matter any more.
func (g *gate) prune(now time.Time) {
	if now.Sub(g.pruned) < pruneEvery {
		return
	}
	g.pruned = now
	for namespace, who := range g.tenants {
		maps.DeleteFunc(who.servers, func(_ string, server *known) bool {
			return server.callers == 0 && (now.Sub(server.used) > forgetAfter ||
				!server.proven && !server.cut && !now.Before(server.until))
		})
		if len(who.servers) == 0 && !now.Before(who.struck) && !who.waiting(now) && now.Sub(who.took) > forgetAfter {
			delete(g.tenants, namespace)
		}
	}
}

// take gives a visit a slot if its tenant may have another slot and if it is the turn of the tenant. Otherwise
// take returns an error of class Busy.
func (g *gate) take(v *visit, now time.Time) error {
	who := v.tenant
	if who.slots >= who.limit() {
		return later(now.Sub(who.took))
	}
	if !who.waiting(now) {
		who.waits = now
	}
	who.came = now
	ahead := 0
	for _, other := range g.tenants {
		if other != who && other.waiting(now) && other.slots < other.limit() && other.before(who) {
			ahead++
		}
	}
	if g.taken+ahead >= g.slots {
		return who.nextTurn(now, ahead)
	}
	g.taken++
	who.slots++
	who.took, who.waits, v.slot = now, time.Time{}, true
	return nil
}

// nextTurn returns an error of class Busy with the delay before a caller should retry. The delay is short
// if few tenants are ahead, so that a free slot is soon used. Callers of one tenant do not retry at the
// same time.
func (t *tenant) nextTurn(now time.Time, ahead int) error {
	if t.next.Before(now) {
		t.next = now
	}
	t.next = t.next.Add(turnBase)
	return busy(min(max(t.next.Sub(now), time.Duration(ahead)*turnBase/slotsOfTenant), busyLimit))
}

func (t *tenant) limit() int {
	if t.bad {
		return 1
	}
	return slotsOfTenant
}

func (t *tenant) waiting(now time.Time) bool {
	return !t.waits.IsZero() && now.Sub(t.came) <= ticketLife
}

// before reports whether a waiting tenant gets a slot before another tenant.
func (t *tenant) before(other *tenant) bool {
	if t.bad != other.bad {
		return !t.bad
	}
	return t.waits.Before(other.waits)
}

// later returns an error of class Busy. The longer the wait so far, the later the caller should retry.
func later(waited time.Duration) error {
	after := min(max(waited, busyBase), busyLimit)
	after += time.Duration((rand.Float64() - 0.5) * 0.5 * float64(after)) // so that callers do not retry at the same time
	return busy(after)
}
