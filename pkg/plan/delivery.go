package plan

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
)

// delivery passes the events of an informer to a handler, and remembers the resource version of the last event.
type delivery struct {
	cache.ResourceEventHandler
	informer cache.SharedInformer
	// list is the resource version of the list with which the informer began.
	list string
	seen atomic.Int64
}

func (r *Run) deliver(informer cache.SharedInformer, handler cache.ResourceEventHandler) cache.ResourceEventHandler {
	d := &delivery{ResourceEventHandler: handler, informer: informer}
	r.deliveries = append(r.deliveries, d)
	return d
}

// OnAdd implements cache.ResourceEventHandler.
func (d *delivery) OnAdd(obj any, isInInitialList bool) {
	d.ResourceEventHandler.OnAdd(obj, isInInitialList)
	if !isInInitialList {
		d.note(obj)
	}
}

// OnUpdate implements cache.ResourceEventHandler.
func (d *delivery) OnUpdate(oldObj, newObj any) {
	d.ResourceEventHandler.OnUpdate(oldObj, newObj)
	d.note(newObj)
}

// OnDelete implements cache.ResourceEventHandler.
func (d *delivery) OnDelete(obj any) {
	d.ResourceEventHandler.OnDelete(obj)
	d.note(obj)
}

func (d *delivery) note(obj any) {
	if object, err := meta.Accessor(obj); err == nil {
		if version, err := strconv.ParseInt(object.GetResourceVersion(), 10, 64); err == nil {
			d.seen.Store(version)
		}
	}
}

// await waits until all handlers have received the events of all planned writes.
func (r *Run) await(ctx context.Context) error {
	changes, _ := r.server.log()
	for _, d := range r.deliveries {
		last := r.server.lastEvent(d.list, changes[r.handled:])
		if err := poll(ctx, func() bool { return d.seen.Load() >= last }); err != nil {
			return err
		}
	}
	r.handled = len(changes)
	return nil
}

// poll waits until a condition is true.
func poll(ctx context.Context, is func() bool) error {
	return wait.PollUntilContextCancel(ctx, time.Millisecond, true, func(context.Context) (bool, error) {
		return is(), nil
	})
}
