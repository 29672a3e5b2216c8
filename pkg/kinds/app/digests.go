package app

import (
	"context"
	"sync"

	"k8s.io/utils/lru"
)

// maxDigests is how many digests are cached. The oldest is dropped, which costs a request if it is
// needed again.
const maxDigests = 4096

// content is one version of a Secret or ConfigMap.
type content struct{ kind, namespace, name, version string }

// digests caches the digests of Secrets and ConfigMaps for all Apps, so that a change of a Secret
// that many Apps refer to costs one request. Only digests are kept, which are also annotations of the
// Deployment.
type digests struct {
	known *lru.Cache // of inputs, by content

	mu      sync.Mutex
	reading map[content]*reading
}

// reading is a request in flight.
type reading struct {
	done chan struct{}
	in   input
	err  error
}

func newDigests() *digests {
	return &digests{known: lru.New(maxDigests), reading: map[content]*reading{}}
}

// of returns the cached result of read for a version, or calls read. Concurrent calls for the same
// version share one call of read and its error.
func (d *digests) of(ctx context.Context, version content, read func(context.Context) (input, error)) (input, error) {
	d.mu.Lock()
	if known, ok := d.known.Get(version); ok {
		d.mu.Unlock()
		return known.(input), nil
	}
	if r, ok := d.reading[version]; ok {
		d.mu.Unlock()
		<-r.done
		return r.in, r.err
	}
	r := &reading{done: make(chan struct{}), err: context.Canceled} // should read panic
	d.reading[version] = r
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.reading, version)
		if r.err == nil {
			d.known.Add(version, r.in)
		}
		close(r.done)
	}()
	r.in, r.err = read(ctx)
	return r.in, r.err
}
