package controller

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/features"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// Sync does one pass for a key. Pipeline.Sync is one.
type Sync func(ctx context.Context, key Key) (Result, error)

// Controller feeds the keys of a queue to workers. It knows nothing of what a
// pass does.
type Controller struct {
	name   string
	queue  *Queue
	sync   Sync
	synced []cache.DoneChecker
	// watches are begun by Run: a process that stands by fills its caches, but no
	// queue that nobody works on.
	watches []watch

	mu         sync.Mutex
	unreadable sets.Set[Key]
}

// watch is an informer and what makes keys of its events.
type watch struct {
	informer cache.SharedInformer
	handler  cache.ResourceEventHandler
}

// New returns a controller whose workers call sync for the keys of queue once the
// caches of all watches are filled. Its metrics and logs bear the name.
func New(name string, queue *Queue, sync Sync) *Controller {
	return &Controller{name: name, queue: queue, sync: sync, unreadable: sets.New[Key]()}
}

// Name is the name given to New.
func (c *Controller) Name() string { return c.name }

// Watch makes the events of an informer reach handler while the controller runs,
// beginning with one for every object in the cache. It is called before Run.
func (c *Controller) Watch(informer cache.SharedInformer, handler cache.ResourceEventHandler) {
	c.watches = append(c.watches, watch{informer, handler})
	c.synced = append(c.synced, informer.HasSyncedChecker())
}

// HasSynced tells whether the caches are filled that the controller reads.
func (c *Controller) HasSynced() bool {
	return !slices.ContainsFunc(c.synced, func(filled cache.DoneChecker) bool { return !cache.IsDone(filled) })
}

// WaitForSync waits until they are. It is false if ctx ends before.
func (c *Controller) WaitForSync(ctx context.Context) bool {
	return cache.WaitFor(ctx, "", c.synced...)
}

// Run works until ctx ends. It then begins no further pass, and returns when
// those in flight have ended. The keys that still wait are dropped, since the
// next process begins with a list of everything. It returns an error if ctx
// ends before the caches are filled, or if they would not tell their versions.
func (c *Controller) Run(ctx context.Context, workers int) error {
	defer c.queue.ShutDown()
	if !features.FeatureGates().Enabled(features.AtomicFIFO) {
		return fmt.Errorf("controller %s: set KUBE_FEATURE_%s to true in the environment, or leave it out: without this feature of client-go a cache does not tell how far it has come, and no pass could wait for its own writes", c.name, features.AtomicFIFO)
	}
	ctx = klog.NewContext(ctx, klog.LoggerWithValues(klog.FromContext(ctx), "controller", c.name))
	synced, unwatch, err := c.watch()
	defer unwatch()
	if err != nil {
		return err
	}
	if !cache.WaitFor(ctx, "", synced...) {
		return fmt.Errorf("controller %s: stopped before its caches were filled", c.name)
	}
	introduce(c.name, workers)
	klog.FromContext(ctx).Info("Started workers", "workers", workers)
	var running sync.WaitGroup
	for range workers {
		running.Go(func() { c.runWorker(ctx) })
	}
	<-ctx.Done()
	c.queue.ShutDown()
	running.Wait()
	klog.FromContext(ctx).Info("Stopped workers")
	return nil
}

// watch begins all watches. It returns what is done once the queue has all that is
// in the caches, and what ends the watches.
func (c *Controller) watch() (synced []cache.DoneChecker, unwatch func(), err error) {
	synced = slices.Clone(c.synced)
	var ends []func()
	unwatch = func() {
		for _, end := range ends {
			end()
		}
	}
	for _, w := range c.watches {
		registration, err := w.informer.AddEventHandler(w.handler)
		if err != nil {
			return nil, unwatch, fmt.Errorf("controller %s: watching: %w", c.name, err)
		}
		synced = append(synced, registration.HasSyncedChecker())
		ends = append(ends, func() { _ = w.informer.RemoveEventHandler(registration) })
	}
	return synced, unwatch, nil
}

func (c *Controller) runWorker(ctx context.Context) {
	for c.processNextItem(ctx) {
	}
}

func (c *Controller) processNextItem(ctx context.Context) bool {
	key, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	defer c.queue.Done(key)
	if ctx.Err() != nil {
		return true // drains the queue
	}
	activeWorkers.WithLabelValues(c.name).Inc()
	defer activeWorkers.WithLabelValues(c.name).Dec()

	// A pass that has begun is finished even if ctx ends meanwhile.
	ctx = klog.NewContext(context.WithoutCancel(ctx), klog.LoggerWithValues(klog.FromContext(ctx),
		"object", key, "reconcileID", fmt.Sprintf("%08x", rand.Uint32())))
	start := time.Now()
	result, err := recovered(func() (Result, error) { return c.sync(ctx, key) })
	c.handleResult(ctx, key, classify(result, err), time.Since(start))
	return true
}

func (c *Controller) handleResult(ctx context.Context, key Key, o outcome, took time.Duration) {
	observe(c.name, o, took)
	c.count(key, o)
	logger := klog.FromContext(ctx)
	if o.err != nil {
		logger.Error(o.err, "Pass failed", append([]any{"result", string(o.name), "reason", o.reason}, stackOf(o.err)...)...)
	}
	logger.V(2).Info("Pass ended", "result", string(o.name), "reason", o.reason, "duration", took, "requeueAfter", o.after)
	switch o.retry {
	case onChange:
		c.queue.Forget(key)
	case after:
		c.queue.Forget(key)
		c.queue.AddAfter(key, o.after, o.lane)
	case backoff:
		c.queue.AddWithBackoff(key)
	case quickly:
		c.queue.AddQuickly(key)
	}
}

// count keeps the number of objects that are not reconciled.
func (c *Controller) count(key Key, o outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case o.name == OutcomeUnreadable:
		c.unreadable.Insert(key)
	case o.quiet || !c.unreadable.Has(key):
		return
	default:
		c.unreadable.Delete(key)
	}
	unreadableObjects.WithLabelValues(c.name).Set(float64(c.unreadable.Len()))
}

// recovered turns a panic of pass into an error.
func recovered(pass func() (Result, error)) (result Result, err error) {
	defer func() {
		if value := recover(); value != nil {
			result, err = Result{}, &panicError{value: value, stack: debug.Stack()}
		}
	}()
	return pass()
}
