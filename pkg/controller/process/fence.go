package process

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

// Fence keeps a process that has lost its Leases from writing. A process can be stopped with SIGSTOP, or its control
// group can be frozen, for longer than a Lease is valid. The process then continues in the middle of its reconciles,
// and notices only later that another process leads. The zero Fence and a nil Fence let all requests pass.
type Fence struct {
	mu    sync.Mutex
	terms []*term
}

var errFenced = errors.New("this process has not renewed its Lease in time, so another process may lead now")

// Wrap returns a transport that rejects writes unless this process may act. Without shards, the process must have
// renewed all its Leases in time. With shards, the process must have renewed the Lease of the replica, and read the
// Leases and the layout, in time. Wrap is an argument for rest.Config.Wrap.
func (f *Fence) Wrap(next http.RoundTripper) http.RoundTripper { return fenced{f, next} }

// guard makes the fence reject writes outside of the terms.
func (f *Fence) guard(terms ...*term) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.terms = append(f.terms, terms...)
}

func (f *Fence) open() bool {
	if f == nil {
		return true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, t := range f.terms {
		if !t.acts() {
			return false
		}
	}
	return true
}

// fenced is an http.RoundTripper behind a Fence.
type fenced struct {
	fence *Fence
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (f fenced) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodGet && !f.fence.open() {
		if request.Body != nil {
			_ = request.Body.Close()
		}
		return nil, fmt.Errorf("%s %s was not sent: %w", request.Method, request.URL.Path, errFenced)
	}
	return f.next.RoundTrip(request)
}

// WrappedRoundTripper implements k8s.io/apimachinery/pkg/util/net.RoundTripperWrapper.
func (f fenced) WrappedRoundTripper() http.RoundTripper { return f.next }

// term is the time in which a process may act as the holder of a Lease. The time goes on while the process is stopped
// or the machine is suspended.
type term struct {
	clock    clock.PassiveClock
	duration time.Duration // after which another process may hold the Lease
	deadline time.Duration // after which this process no longer acts as the holder
	// renewed is when the last successful renewal was sent. It is nil before the first renewal.
	renewed atomic.Pointer[time.Time]
}

// newTerm returns the term of a Lease that this process does not hold yet.
func newTerm(clk clock.PassiveClock, duration, deadline time.Duration) *term {
	return &term{clock: clk, duration: duration, deadline: deadline}
}

// since returns the time since a renewal, by the monotonic clock or the wall clock, whichever shows more time. The
// monotonic clock of Linux stops while the machine is suspended. The wall clock can be set back.
func (t *term) since(renewed time.Time) time.Duration {
	now := t.clock.Now()
	return max(now.Sub(renewed), now.Round(0).Sub(renewed.Round(0)))
}

// renew records a successful renewal, which was sent at the time sent.
func (t *term) renew(sent time.Time) { t.renewed.Store(&sent) }

// begun reports whether this process has held the Lease.
func (t *term) begun() bool { return t.renewed.Load() != nil }

// acts reports whether this process has renewed the Lease recently enough to act as its holder.
func (t *term) acts() bool {
	renewed := t.renewed.Load()
	return renewed != nil && t.since(*renewed) <= t.deadline
}

// over reports whether another process may hold a Lease that this process has held.
func (t *term) over() bool {
	renewed := t.renewed.Load()
	return renewed != nil && t.since(*renewed) > t.duration
}
