package postgresql

import "time"

const (
	// forgetAfter is when a server is forgotten that nobody visits: some time after it would
	// have been looked at again.
	forgetAfter = 15 * time.Minute
	// maxServersOfTenant and maxServers are how many servers are known.
	maxServersOfTenant, maxServers = 64, 4096
	pruneEvery                     = time.Minute
)

// prune forgets what says nothing any more. A server that is new takes the place of the one
// that was visited least recently, of the same tenant or of all, if there are too many. What
// somebody visits now is kept, so that there can be a few more.
func (g *gate) prune(now time.Time, comes place) {
	if now.Sub(g.pruned) >= pruneEvery {
		g.pruned = now
		for at, server := range g.servers {
			if server.callers == 0 && (now.Sub(server.used) > forgetAfter || !server.proven && !server.cut && !now.Before(server.until)) {
				delete(g.servers, at)
			}
		}
		for name, who := range g.tenants {
			if who.callers == 0 && !now.Before(who.struck) && !who.waiting(now) && now.Sub(who.took) > forgetAfter {
				delete(g.tenants, name)
			}
		}
	}
	if g.servers[comes] != nil {
		return
	}
	if g.count(comes.tenant) >= maxServersOfTenant {
		g.forgetOldest(func(at place) bool { return at.tenant == comes.tenant })
	}
	if len(g.servers) >= maxServers {
		g.forgetOldest(func(place) bool { return true })
	}
}

func (g *gate) count(tenant string) (n int) {
	for at := range g.servers {
		if at.tenant == tenant {
			n++
		}
	}
	return n
}

func (g *gate) forgetOldest(of func(place) bool) {
	var (
		oldest place
		used   time.Time
		found  bool
	)
	for at, server := range g.servers {
		if server.callers == 0 && of(at) && (!found || server.used.Before(used)) {
			oldest, used, found = at, server.used, true
		}
	}
	if found {
		delete(g.servers, oldest)
	}
}
