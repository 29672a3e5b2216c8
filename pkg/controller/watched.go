package controller

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

const (
	// failureWindow is how long a kind counts as not watched after its last failed list or watch. A reflector retries at
	// least once a minute (client-go/tools/cache/reflector.go), and does not report when a retry succeeds.
	failureWindow = 2 * time.Minute
	// failureLogInterval is the time between two log lines about a kind that cannot be watched.
	failureLogInterval = time.Minute
)

// watchFailures remembers the last failed list or watch of a kind's own objects.
type watchFailures struct {
	clock clock.PassiveClock
	// handle is the default handler of client-go, which logs a failure.
	handle cache.WatchErrorHandlerWithContext

	mu           sync.Mutex
	last, logged time.Time
}

func newWatchFailures(clock clock.PassiveClock) *watchFailures {
	return &watchFailures{clock: clock, handle: cache.DefaultWatchErrorHandler}
}

// observe makes an informer report failed lists and watches to f. In addition to the log lines of client-go, observe
// logs at most one line per failureLogInterval. It returns an error if the informer has started.
func (f *watchFailures) observe(name string, informer cache.SharedInformer) error {
	return informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		f.handle(ctx, r, err)
		if f.note(err) {
			klog.FromContext(ctx).Error(err, "Failed to watch a kind, whose changes are not reconciled until a watch "+
				"succeeds. Check whether the CustomResourceDefinition is installed, and whether the operator's service account "+
				"may list and watch the kind", "controller", name)
		}
	})
}

// note records a failure, and reports whether to log it. An expired resource version is not a failure, because the
// reflector then lists again.
func (f *watchFailures) note(err error) bool {
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = f.clock.Now()
	if f.last.Sub(f.logged) < failureLogInterval {
		return false
	}
	f.logged = f.last
	return true
}

// recent reports whether a list or watch has failed within failureWindow.
func (f *watchFailures) recent() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.last.IsZero() && f.clock.Since(f.last) < failureWindow
}

// Watched reports whether the caches of the controller have synced, and no list or watch of its kind has failed
// within the last two minutes.
func (c *Controller) Watched() bool {
	return c.HasSynced() && (c.watchFailures == nil || !c.watchFailures.recent())
}
