package controller

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/features"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// SyncHandler reconciles the object with the given key, as Pipeline.Sync does.
type SyncHandler func(ctx context.Context, key Key) (Result, error)

// Controller runs the workers that reconcile the keys of a queue.
type Controller struct {
	name        string
	kind        schema.GroupVersionKind
	queue       *Queue
	syncHandler SyncHandler
	// cachesSynced has the checker of each watch that is not optional. A checker is done once its cache has synced.
	cachesSynced []cache.DoneChecker
	// watches are the watches that Run starts. A standby does not call Run, so the queue of a standby stays empty.
	watches []watch
	// watchFailures records the failed watches of the kind's own objects. Nil means that they are not recorded.
	watchFailures *watchFailures
	// objects has the metrics of the kind's own objects. Nil means that the controller was created without a Kind.
	objects *objectMetrics
	// cached returns an object from the cache. Nil means that the controller was created without a Kind.
	cached func(key Key) (Object, error)
}

// watch is an informer and the handler that turns its events into keys.
type watch struct {
	informer cache.SharedInformer
	handler  cache.ResourceEventHandler
	optional bool // see WatchOptional
}

// New returns a controller whose workers call sync for each key of queue. The workers start once the caches of all
// watches that are not optional have synced. name identifies the controller in metrics and logs.
func New(name string, queue *Queue, sync SyncHandler) *Controller {
	return &Controller{name: name, queue: queue, syncHandler: sync}
}

// Name returns the name that was given to New.
func (c *Controller) Name() string { return c.name }

// GroupVersionKind returns the kind of the objects, or an empty kind if the controller was created without a Kind.
func (c *Controller) GroupVersionKind() schema.GroupVersionKind { return c.kind }

// Watch makes Run register handler with informer. The handler first gets an event for every object in
// the cache. Watch must be called before Run.
func (c *Controller) Watch(informer cache.SharedInformer, handler cache.ResourceEventHandler) {
	c.watches = append(c.watches, watch{informer: informer, handler: handler})
	c.cachesSynced = append(c.cachesSynced, informer.HasSyncedChecker())
}

// WatchOptional is like Watch, but the workers do not wait until the cache of informer has synced.
func (c *Controller) WatchOptional(informer cache.SharedInformer, handler cache.ResourceEventHandler) {
	c.watches = append(c.watches, watch{informer: informer, handler: handler, optional: true})
}

// HasSynced reports whether the caches of all watches that are not optional have synced.
func (c *Controller) HasSynced() bool {
	return !slices.ContainsFunc(c.cachesSynced, func(synced cache.DoneChecker) bool { return !cache.IsDone(synced) })
}

// WaitForSync waits until HasSynced is true. It returns false if ctx ends first.
func (c *Controller) WaitForSync(ctx context.Context) bool {
	return cache.WaitFor(ctx, "", c.cachesSynced...)
}

// Run runs the given number of workers until ctx ends. It then waits for the reconciles in flight, and drops the queued
// keys, because the next process lists every object. Run returns an error if ctx ends before the caches have synced, if
// an informer has stopped, or if the feature AtomicFIFO of client-go is disabled.
func (c *Controller) Run(ctx context.Context, workers int) error { return RunAll(ctx, workers, c) }

// RunAll runs controllers as Run does, each with the given number of workers. Controllers that watch the same informer
// share one registration, because each registration takes two goroutines and a buffer of 16 KiB.
func RunAll(ctx context.Context, workers int, controllers ...*Controller) error {
	defer shutDown(controllers) // also the queues of controllers that have not started
	if !features.FeatureGates().Enabled(features.AtomicFIFO) {
		return fmt.Errorf("the feature %s of client-go is disabled, but reconciles need it to wait for their own "+
			"writes: unset the environment variable KUBE_FEATURE_%s, or set it to true", features.AtomicFIFO,
			features.AtomicFIFO)
	}
	registered, err := register(controllers, nil)
	defer registered.remove()
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	ended := make([]error, len(controllers))
	for i, c := range controllers {
		running.Go(func() { ended[i] = c.run(ctx, workers, registered) })
	}
	running.Wait()
	return errors.Join(ended...)
}

func shutDown(controllers []*Controller) {
	for _, c := range controllers {
		c.queue.ShutDown()
	}
}

// run waits until the caches have synced and the handlers have received their initial lists. It then runs the workers
// until ctx ends.
func (c *Controller) run(ctx context.Context, workers int, registered registrations) error {
	ctx = klog.NewContext(ctx, klog.LoggerWithValues(klog.FromContext(ctx), "controller", c.name))
	initMetrics(c.name, workers)
	defer c.removeMetrics(workers)
	if !cache.WaitFor(ctx, "", append(registered.synced(c, false), c.cachesSynced...)...) {
		return fmt.Errorf("controller %s: stopped before its caches had synced", c.name)
	}
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

func (c *Controller) runWorker(ctx context.Context) {
	for c.processNextWorkItem(ctx) {
	}
}

func (c *Controller) processNextWorkItem(ctx context.Context) bool {
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

	// The end of ctx does not interrupt a reconcile that has started.
	ctx = klog.NewContext(context.WithoutCancel(ctx), klog.LoggerWithValues(klog.FromContext(ctx),
		"object", key, "reconcileID", fmt.Sprintf("%08x", rand.Uint32())))
	start := time.Now()
	result, err := recovered(func() (Result, error) { return c.syncHandler(ctx, key) })
	c.handleResult(ctx, key, classify(result, err), time.Since(start))
	return true
}

func (c *Controller) handleResult(ctx context.Context, key Key, d decision, took time.Duration) {
	recordReconcile(c.name, d, took)
	logger := klog.FromContext(ctx)
	if d.err != nil {
		logger.Error(d.err, "Reconcile failed", append([]any{
			"result", string(d.outcome), "reason", d.reason,
		}, stackOf(d.err)...)...)
	}
	logger.V(2).Info("Reconcile ended", "result", string(d.outcome), "reason", d.reason, "duration", took, "requeueAfter",
		d.after)
	switch d.retry {
	case retryOnChange:
		c.queue.Forget(key)
	case retryAfter:
		c.queue.Forget(key)
		c.queue.AddAfter(key, d.after, d.lane)
	case retryWithBackoff:
		c.queue.AddRateLimited(key)
	case retryQuickly:
		c.queue.AddQuickly(key)
	}
}

// recovered calls reconcile. If reconcile panics, recovered returns the panic as an error.
func recovered(reconcile func() (Result, error)) (result Result, err error) {
	defer func() {
		if value := recover(); value != nil {
			result, err = Result{}, &panicError{value: value, stack: debug.Stack()}
		}
	}()
	return reconcile()
}
