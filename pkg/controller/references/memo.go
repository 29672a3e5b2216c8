package references

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	"windlass.dev/windlass/pkg/controller"
)

// Memo remembers the result of reading the latest version of each object, for all reconciles of a kind. For
// example, after a change of a Secret that many objects name, the Secret is read once.
type Memo[V any] struct {
	known *lru.Cache // of remembered[V], by UID

	mu      sync.Mutex
	reading map[version]*reading[V]
}

// remembered is the result for a version of an object.
type remembered[V any] struct {
	version string
	result  V
}

// version identifies a version of an object of any type.
type version struct {
	uid     types.UID
	version string
}

// reading is a call of read in flight.
type reading[V any] struct {
	done   chan struct{}
	result V
	err    error
}

// NewMemo returns a Memo that remembers the results of at most size objects. Beyond that number, the Memo
// drops the least recently used result. The object of a dropped result is read again when it is needed.
func NewMemo[V any](size int) *Memo[V] {
	return &Memo[V]{known: lru.New(size), reading: map[version]*reading[V]{}}
}

// Of returns the remembered result for a version of an object, or calls read. Concurrent calls for the
// same version share one call of read and its error. Errors are not remembered.
func (m *Memo[V]) Of(
	ctx context.Context, object controller.Versioned, read func(context.Context) (V, error),
) (V, error) {
	of := version{object.GetUID(), object.GetResourceVersion()}
	m.mu.Lock()
	if known, ok := m.known.Get(of.uid); ok && known.(remembered[V]).version == of.version {
		m.mu.Unlock()
		return known.(remembered[V]).result, nil
	}
	if r, ok := m.reading[of]; ok {
		m.mu.Unlock()
		<-r.done
		return r.result, r.err
	}
	r := &reading[V]{done: make(chan struct{}), err: context.Canceled} // the error for other callers if read panics
	m.reading[of] = r
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.reading, of)
		if r.err == nil {
			m.known.Add(of.uid, remembered[V]{of.version, r.result})
		}
		close(r.done)
	}()
	r.result, r.err = read(ctx)
	return r.result, r.err
}
