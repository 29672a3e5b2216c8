package postgresql

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// awayFor is how long a server that did not answer is taken to be away.
	awayFor = 30 * time.Second
	// patience is how long callers may wait for a server before others do not join them.
	patience = time.Second
	// slowAfter is how long a visit to a server may take that is known to answer fast. It
	// goes on after that only if there is a slot for it.
	slowAfter = 5 * time.Second
	// longestUnproven and longest end a visit with a slot. After the one that was ended by the
	// first comes one that may take longest: the server may need that for a statement.
	longestUnproven, longest = 15 * time.Second, 40 * time.Second
	// struckFor is how long a tenant needs a slot for each visit after a server was slow that
	// was known to answer fast.
	struckFor = 5 * time.Minute
	// slotsOfTenant is how many slots a tenant has at most; one after a visit that came to
	// nothing.
	slotsOfTenant = 2
	// Callers that are busy come again after busyBase, and after longer the longer they have
	// waited, up to busyLimit. A tenant that has not come for ticketLife does not wait.
	busyBase, busyLimit, ticketLife = time.Second, 8 * time.Second, 15 * time.Second
	// turnBase is between callers of a tenant that wait for a slot.
	turnBase = 250 * time.Millisecond
)

// gate keeps servers that are slow or do not answer from holding up those that wait for
// others. What is known of a server is known for each tenant apart.
//
// A server is proven by a visit of at most slowAfter at whose end it answered. A visit to
// any other server takes one of a few slots. Tenants get slots in turn, first those whose
// last visit with a slot went well. So a tenant whose servers answer waits for one visit in
// each slot at most, and whoever visits a proven server needs no slot.
type gate struct {
	slots int

	mu      sync.Mutex
	taken   int // slots
	servers map[place]*known
	tenants map[string]*tenant
	pruned  time.Time
}

// place is a server of a tenant's.
type place struct{ tenant, address string }

// known is what is known of a server.
type known struct {
	proven  bool
	cut     bool      // the last visit was ended since it took too long
	answers bool      // the last that was asked of it got an answer
	callers int       // that are at it
	since   time.Time // when one of them last got an answer, or the first came
	until   time.Time // when it may be asked again
	silence error     // why not before
	used    time.Time
}

// tenant is who names servers.
type tenant struct {
	callers int
	slots   int
	bad     bool      // the last visit with a slot came to nothing
	struck  time.Time // until then each visit needs a slot
	took    time.Time // the last slot
	// waits is since when it waits for a slot, zero if it does not, and came is when it last
	// asked for one.
	waits, came time.Time
	next        time.Time // when the last of its callers comes again that wait for a slot
}

func newGate(slots int) *gate {
	return &gate{slots: slots, servers: map[place]*known{}, tenants: map[string]*tenant{}}
}

// enter lets a caller in, who calls leave in the end; or it says why not.
func (g *gate) enter(at place) (*visit, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	g.prune(now, at)
	server, who := g.of(at)
	server.used = now
	switch {
	case now.Before(server.until):
		return nil, server.silence
	case server.callers > 0 && (!server.answers || now.Sub(server.since) > patience):
		return nil, busy(now.Sub(server.since))
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
	who.callers++
	v.ctx, v.end = context.WithCancelCause(context.Background())
	v.timer = time.AfterFunc(limit, v.overdue)
	return v, nil
}

func (g *gate) of(at place) (*known, *tenant) {
	server, who := g.servers[at], g.tenants[at.tenant]
	if server == nil {
		server = &known{}
		g.servers[at] = server
	}
	if who == nil {
		who = &tenant{}
		g.tenants[at.tenant] = who
	}
	return server, who
}

// take gives a visit a slot, if it is its tenant's turn.
func (g *gate) take(v *visit, now time.Time) error {
	who := v.tenant
	if who.slots >= who.limit() {
		return busy(now.Sub(who.took))
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

// nextTurn has a caller come again the sooner the fewer tenants are ahead, but not all callers
// of a tenant at once: a slot that waits for somebody is lost to all.
func (t *tenant) nextTurn(now time.Time, ahead int) error {
	if t.next.Before(now) {
		t.next = now
	}
	t.next = t.next.Add(turnBase)
	return &classified{Busy, &busyError{min(max(t.next.Sub(now), time.Duration(ahead)*turnBase/slotsOfTenant), busyLimit)}}
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

// before reports whether a tenant that waits gets a slot before another one that does.
func (t *tenant) before(other *tenant) bool {
	if t.bad != other.bad {
		return !t.bad
	}
	return t.waits.Before(other.waits)
}

// busy tells a caller that has waited for some time to come again.
func busy(waited time.Duration) error {
	after := min(max(waited, busyBase), busyLimit)
	after += time.Duration((rand.Float64() - 0.5) * 0.5 * float64(after)) // so that callers do not come at once
	return &classified{Busy, &busyError{after}}
}
