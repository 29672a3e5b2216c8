package postgresql

import (
	"context"
	"maps"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// awayFor is how long the gate rejects visits to a server that did not respond. After a visit that took at most quick,
	// the gate rejects visits only for quick, because the visit hardly occupied a worker and the server may be starting.
	awayFor = 30 * time.Second
	quick   = time.Second
	// slowAfter is how long a visit without a slot may take. After this time, the visit continues only if it gets a slot.
	slowAfter = 5 * time.Second
	// longest is the timeout of a visit with a slot.
	longest = 40 * time.Second
	// struckFor is the period in which every visit of a tenant needs a slot, after a visit of the tenant to a
	// proven server took longer than slowAfter.
	struckFor = 5 * time.Minute
	// slotsOfTenant is how many slots a tenant can have. After a slow or failed visit with a slot, the tenant
	// can have only one.
	slotsOfTenant = 2
	// busyBase is the shortest retry delay of a caller, and busyLimit is the longest. Delays vary at random by up to a
	// quarter. A tenant that has not retried for ticketLife loses its place in the queue for a slot.
	busyBase, busyLimit, ticketLife = time.Second, 8 * time.Second, 15 * time.Second
	// turn is the delay for each tenant that gets a slot before the caller's tenant.
	turn = 125 * time.Millisecond
	// forgetAfter is how long a tenant without visits is remembered. forgetAfter is longer than the resync interval and
	// the other periods of the gate.
	forgetAfter = 15 * time.Minute
	// maxServersOfTenant limits how many servers of a tenant are remembered.
	maxServersOfTenant = 64
)

// gate prevents slow and silent servers from occupying all workers. It remembers each server separately for each
// tenant.
//
// A server is proven if its last visit took at most slowAfter and the server responded to the last request. A visit to
// any other server needs one of a few slots. Tenants get slots in turn. Tenants whose last visit with a slot was slow
// or failed come last. Other tenants therefore wait for at most one visit of such a tenant in each slot.
type gate struct {
	slots int

	mu      sync.Mutex
	taken   int // the number of slots in use
	tenants map[string]*tenant
}

// known is what the gate knows about a server that a tenant uses.
type known struct {
	proven  bool
	until   time.Time // the gate rejects all visits before this time
	silence error     // the error with which the gate rejects them
}

// tenant is a namespace whose objects name servers.
type tenant struct {
	servers map[string]*known // by address
	visits  int               // the number of current visits
	used    time.Time         // when a caller last called enter, or a visit last ended
	slots   int
	bad     bool      // the last visit with a slot was slow or failed
	struck  time.Time // each visit before this time needs a slot
	took    time.Time // when the tenant got its last slot
	// waits is when the tenant began to wait for a slot, or zero. came is when the tenant last asked for a slot.
	waits, came time.Time
}

func newGate(slots int) *gate {
	return &gate{slots: slots, tenants: map[string]*tenant{}}
}

// enter admits a caller, who must call leave at the end of the visit. The error has the class Busy if the visit needs a
// slot and gets none. It has the class Silent if the server did not respond to a recent visit.
func (g *gate) enter(namespace, address string) (*visit, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	g.prune(now)
	server, who := g.of(namespace, address)
	who.used = now
	if now.Before(server.until) {
		return nil, server.silence
	}
	v := &visit{gate: g, server: server, tenant: who, began: now}
	limit := slowAfter
	if !server.proven || now.Before(who.struck) {
		if err := g.take(v, now); err != nil {
			return nil, err
		}
		limit = longest
	}
	who.visits++
	v.ctx, v.end = context.WithCancelCause(context.Background())
	v.timer = time.AfterFunc(limit, v.overdue)
	return v, nil
}

// of returns what the gate knows about a server and its tenant. If the tenant has too many servers, the gate first
// forgets all servers of the tenant.
func (g *gate) of(namespace, address string) (*known, *tenant) {
	who := g.tenants[namespace]
	if who == nil {
		who = &tenant{servers: map[string]*known{}}
		g.tenants[namespace] = who
	}
	server := who.servers[address]
	if server == nil {
		if len(who.servers) >= maxServersOfTenant {
			clear(who.servers)
		}
		server = &known{}
		who.servers[address] = server
	}
	return server, who
}

// prune forgets tenants that have had no visit for forgetAfter.
func (g *gate) prune(now time.Time) {
	maps.DeleteFunc(g.tenants, func(_ string, who *tenant) bool {
		return who.visits == 0 && now.Sub(who.used) > forgetAfter
	})
}

// take gives a visit a slot. It returns an error of class Busy if the tenant has all the slots that it may have, or if
// other tenants get the free slots first.
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
		return later(time.Duration(ahead) * turn)
	}
	g.taken++
	who.slots++
	who.took, who.waits, v.slot = now, time.Time{}, true
	return nil
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

// later returns an error of class Busy. The caller should retry after about the given time, from busyBase to busyLimit.
func later(after time.Duration) error {
	after = min(max(after, busyBase), busyLimit)
	after += time.Duration((rand.Float64() - 0.5) * 0.5 * float64(after)) // so that callers do not retry at the same time
	return &failure{error: errBusy, class: Busy, after: after}
}
