package process

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"windlass.dev/windlass/pkg/controller"
)

// Instance is the operator for all objects or for the objects of one shard: its controllers and their caches.
type Instance struct {
	Controllers []*controller.Controller
	// Warm are the controllers whose caches must have synced before the workers start. Nil means all.
	Warm []*controller.Controller
	// Caches run until the reconciles have ended.
	Caches []Caches
	// Events is the recorder of the controllers. It writes the waiting Events when the reconciles have ended. Nil means no
	// recorder.
	Events *controller.Events
}

// runningInstance is an Instance that runs.
type runningInstance struct {
	Instance
	cancel context.CancelFunc
	ended  chan struct{}
}

// start starts an Instance: first its caches, and its workers when the caches have synced. The instance runs until stop
// is called or ctx ends. It then waits for the reconciles in flight, and writes the waiting Events.
func start(ctx context.Context, i Instance, workers int) *runningInstance {
	ctx, cancel := context.WithCancel(ctx)
	running := &runningInstance{i, cancel, make(chan struct{})}
	lasting, end := context.WithCancel(context.WithoutCancel(ctx))
	for _, caches := range i.Caches {
		caches.Start(lasting.Done())
	}
	written := record(lasting, i.Events)
	warm := newWarmUp(i)
	go func() {
		defer close(running.ended)
		defer written()
		defer end()
		if warm.wait(ctx) {
			heldShards.Inc()
			defer heldShards.Dec()
			runWorkers(ctx, i.Controllers, workers)
		}
		<-ctx.Done()
	}()
	return running
}

// record writes Events until ctx ends, or end is called. end returns when the waiting Events are written.
func record(ctx context.Context, events *controller.Events) (end func()) {
	if events == nil {
		return func() {}
	}
	writing, flush := context.WithCancel(ctx)
	var written sync.WaitGroup
	written.Go(func() { events.Run(writing) })
	return func() {
		flush()
		written.Wait()
	}
}

// runWorkers runs the workers of controllers until ctx ends, and then waits for the reconciles in flight.
func runWorkers(ctx context.Context, controllers []*controller.Controller, workers int) {
	if err := controller.RunAll(ctx, workers, controllers...); err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "Controllers ended")
	}
}

// stop stops the instance, and waits for the reconciles in flight and for the Events. It returns an error if that takes
// longer than reconcilesTimeout, which is 20 s.
func (i *runningInstance) stop() error {
	i.cancel()
	select {
	case <-i.ended:
		return nil
	case <-time.After(reconcilesTimeout):
		return fmt.Errorf("waiting for the reconciles in flight timed out after %v", reconcilesTimeout)
	}
}
