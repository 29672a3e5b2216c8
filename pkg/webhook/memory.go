package webhook

import (
	"errors"
	"io"
	"net/http"
	"sync"
)

// Limits for all concurrent requests together, since any client that reaches the port may send requests.
// Only bytes that have arrived count: neither a Content-Length header nor a slow client reserves memory.
const (
	// maxRequests is the largest number of concurrent requests.
	maxRequests = 256
	// smallRequest is the number of bytes of each request that count against maxSmall. Further bytes count
	// against maxLarge, so that large requests leave room for lists of some hundred Ats.
	smallRequest = 1 << 20
	maxSmall     = 32 << 20
	maxLarge     = 64 << 20
	// retryAfter is the value of the Retry-After header, in seconds.
	retryAfter = "1"
)

var errBusy = errors.New("the requests in flight have too many bytes in total; retry later")

// memory counts concurrent requests and the bytes of their bodies.
type memory struct {
	slots        chan struct{}
	mu           sync.Mutex
	small, large int64
}

func newMemory() *memory { return &memory{slots: make(chan struct{}, maxRequests)} }

// limit returns a handler that calls next for at most maxRequests concurrent requests, and rejects further
// requests with status 429. It limits each body to maxBody bytes and counts its bytes.
func (m *memory) limit(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case m.slots <- struct{}{}:
		default:
			w.Header().Set("Retry-After", retryAfter)
			http.Error(w, "too many requests are in flight; retry later", http.StatusTooManyRequests)
			return
		}
		defer func() { <-m.slots }()
		c := &counted{ReadCloser: http.MaxBytesReader(w, r.Body, maxBody), memory: m}
		defer func() { m.give(c.small, c.large) }()
		r.Body = c
		next(w, r)
	}
}

// take counts bytes against maxSmall and maxLarge. If they would exceed a limit, it counts nothing and returns errBusy.
func (m *memory) take(small, large int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.small+small > maxSmall || m.large+large > maxLarge {
		return errBusy
	}
	m.small, m.large = m.small+small, m.large+large
	return nil
}

// give subtracts bytes that take has counted.
func (m *memory) give(small, large int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.small, m.large = m.small-small, m.large-large
}

// counted is a request body whose bytes count in memory.
type counted struct {
	io.ReadCloser
	memory       *memory
	read         int64
	small, large int64 // the bytes of this request that take has counted
}

// Read implements io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.read += int64(n)
	small := min(c.read, smallRequest) - c.small
	large := max(0, c.read-smallRequest) - c.large
	if busy := c.memory.take(small, large); busy != nil {
		return 0, busy
	}
	c.small, c.large = c.small+small, c.large+large
	return n, err
}
