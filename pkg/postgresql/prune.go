package postgresql

import "time"

const (
	// forgetAfter is how long a server without visits is remembered. It is longer than the resync interval.
	forgetAfter = 15 * time.Minute
	// maxServersOfTenant and maxServers limit how many servers are remembered.
	maxServersOfTenant, maxServers = 64, 4096
	pruneEvery                     = time.Minute
)

// prune forgets servers and tenants that have no visits and whose state does not matter any more. If comes is a
// new server and there are too many servers, of its tenant or in total, prune also forgets the least recently
// visited of these servers. It keeps servers with current visits, so the number of servers can exceed the limits
// a little.
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
