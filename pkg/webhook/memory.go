package webhook

import (
	"errors"
	"io"
	"net/http"
	"sync"
)

// Limits of what all requests take together. Anyone who reaches the port may send one. Bytes count
// as they arrive, so that nobody takes any by an announcement, or by a connection that says little.
const (
	// maxRequests is how many requests are answered at a time.
	maxRequests = 256
	// smallRequest is how many bytes of each request count against maxSmall, and the rest counts
	// against maxLarge: who sends large requests leaves room for lists of some hundred Ats.
	smallRequest = 1 << 20
	maxSmall     = 32 << 20
	maxLarge     = 64 << 20
	// retryAfter is the header that tells when to come again, in seconds.
	retryAfter = "1"
)

var errBusy = errors.New("too many bytes of requests at a time; try again")

// memory is what requests take.
type memory struct {
	slots        chan struct{}
	mu           sync.Mutex
	small, large int64
}

func newMemory() *memory { return &memory{slots: make(chan struct{}, maxRequests)} }

// limit has a handler answer a bounded number of requests at a time, with bodies of at most
// maxBody bytes that count.
func (m *memory) limit(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case m.slots <- struct{}{}:
		default:
			w.Header().Set("Retry-After", retryAfter)
			http.Error(w, "too many requests at a time; try again", http.StatusTooManyRequests)
			return
		}
		defer func() { <-m.slots }()
		c := &counted{ReadCloser: http.MaxBytesReader(w, r.Body, maxBody), memory: m}
		defer func() { m.give(c.small, c.large) }()
		r.Body = c
		next(w, r)
	}
}

// take counts bytes, or fails.
func (m *memory) take(small, large int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.small+small > maxSmall || m.large+large > maxLarge {
		return errBusy
	}
	m.small, m.large = m.small+small, m.large+large
	return nil
}

// give takes back what take has counted.
func (m *memory) give(small, large int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.small, m.large = m.small-small, m.large-large
}

// counted is a body whose bytes count.
type counted struct {
	io.ReadCloser
	memory       *memory
	read         int64
	small, large int64 // what was taken
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
