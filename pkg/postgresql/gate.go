package postgresql

import (
	"sync"
	"time"
)

const (
	// awayFor is how long a server that did not answer is taken to be away.
	awayFor = 30 * time.Second
	// patience is how long callers may wait for a server before others do not join them.
	patience = time.Second
)

// gate keeps servers that do not answer from holding up those that wait for others: of
// a server that is not known to answer, one caller at a time finds out.
type gate struct {
	now     func() time.Time
	mu      sync.Mutex
	servers map[string]*known // by address
}

// known is what is known of a server.
type known struct {
	answers bool      // the last attempt to connect got an answer
	waiting int       // callers that are connecting
	since   time.Time // since when none of them got an answer
	away    error     // the answer to all until then
	until   time.Time
}

func newGate(now func() time.Time) *gate {
	return &gate{now: now, servers: map[string]*known{}}
}

// enter lets a caller connect, who calls leave with what came of it; or it says why not.
func (g *gate) enter(address string) (leave func(error), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	server, now := g.servers[address], g.now()
	if server == nil {
		server = &known{}
		g.servers[address] = server
	}
	if server.away != nil && now.Before(server.until) {
		return nil, server.away
	}
	if server.waiting > 0 && (!server.answers || now.Sub(server.since) > patience) {
		return nil, NewError(Busy, "another connection to the server at %s is being tried", address)
	}
	if server.waiting == 0 {
		server.since = now
	}
	server.waiting++
	return func(err error) { g.left(server, err) }, nil
}

func (g *gate) left(server *known, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	server.waiting--
	server.since = g.now()
	server.away, server.answers = nil, true
	if err != nil && ClassOf(err) == Away {
		server.away, server.answers, server.until = err, false, g.now().Add(awayFor)
	}
}
