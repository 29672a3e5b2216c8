package httpserver

import (
	"net/http"
	"net/netip"
	"sync"
)

// retryAfter is the value of the Retry-After header of Busy, in seconds.
const retryAfter = "1"

// Quota limits how much of something is in use, in total and for each address of a client. It is safe for concurrent
// use.
type Quota struct {
	total, perAddress int

	mu   sync.Mutex
	used map[netip.Addr]int // has no entry for an address that uses nothing
	sum  int
}

// NewQuota returns a Quota that allows total units, and perAddress units for one address.
func NewQuota(total, perAddress int) *Quota {
	return &Quota{total: total, perAddress: perAddress, used: map[netip.Addr]int{}}
}

// Take takes a unit for the client with the given HOST:PORT. It returns a function that gives the unit back, which
// may be called several times, or false if the client or all clients together use too many units.
func (q *Quota) Take(client string) (giveBack func(), ok bool) {
	address := addressOf(client)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.sum >= q.total || q.used[address] >= q.perAddress {
		return nil, false
	}
	q.sum++
	q.used[address]++
	return sync.OnceFunc(func() { q.giveBack(address) }), true
}

func (q *Quota) giveBack(address netip.Addr) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.sum--
	if q.used[address]--; q.used[address] == 0 {
		delete(q.used, address)
	}
}

// Limit returns a handler that takes a unit for each request to next, and responds with Busy if there is none.
func (q *Quota) Limit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		giveBack, ok := q.Take(r.RemoteAddr)
		if !ok {
			Busy(w)
			return
		}
		defer giveBack()
		next.ServeHTTP(w, r)
	})
}

// Busy responds with status 429 and asks the client to retry after a second.
func Busy(w http.ResponseWriter) {
	w.Header().Set("Retry-After", retryAfter)
	http.Error(w, "too many requests are in flight; retry later", http.StatusTooManyRequests)
}

// addressOf returns the address of the client with the given HOST:PORT. All clients whose address is not an IP address
// count as one.
func addressOf(client string) netip.Addr {
	parsed, _ := netip.ParseAddrPort(client)
	return parsed.Addr().Unmap().WithZone("")
}
