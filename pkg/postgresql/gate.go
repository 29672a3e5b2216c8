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
// a server that is not known to answer, one caller at a time finds out; and nobody joins
// those who have waited for long.
type gate struct {
	now     func() time.Time
	mu      sync.Mutex
	servers map[string]*known // by address
}

// known is what is known of a server.
type known struct {
	answers bool      // the last that was asked of it got an answer
	callers int       // that are at it
	since   time.Time // when one of them last got an answer, or the first came
	until   time.Time // when it may be asked again
	cause   string    // why not before
}

func newGate(now func() time.Time) *gate {
	return &gate{now: now, servers: map[string]*known{}}
}

// enter lets a caller in, who calls leave in the end; or it says why not.
func (g *gate) enter(address string) (leave func(), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	server, now := g.servers[address], g.now()
	if server == nil {
		server = &known{}
		g.servers[address] = server
	}
	switch {
	case now.Before(server.until):
		return nil, NewError(Away, "the server at %s has not answered another attempt: %s", address, server.cause)
	case server.callers > 0 && (!server.answers || now.Sub(server.since) > patience):
		return nil, NewError(Busy, "the server at %s is being asked by others", address)
	case server.callers == 0:
		server.since = now
	}
	server.callers++
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		server.callers--
	}, nil
}

// asked notes what came of asking a server: an answer, whatever it says, or silence.
func (g *gate) asked(address string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	server := g.servers[address]
	if server == nil {
		return
	}
	server.since, server.answers, server.until = g.now(), true, time.Time{}
	if isSilent(err) {
		server.answers, server.until, server.cause = false, g.now().Add(awayFor), causeOf(err)
	}
}
