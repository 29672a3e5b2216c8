package plan

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"
)

// delivery passes the events of an informer to a handler, and remembers the version of the last one.
type delivery struct {
	cache.ResourceEventHandler
	informer cache.SharedInformer
	// list is the version of the list with which the informer began.
	list string

	mu   sync.Mutex
	more *sync.Cond
	seen string
}

func (r *Run) deliver(informer cache.SharedInformer, handler cache.ResourceEventHandler) cache.ResourceEventHandler {
	d := &delivery{ResourceEventHandler: handler, informer: informer}
	d.more = sync.NewCond(&d.mu)
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
	object, err := meta.Accessor(obj)
	if err != nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen = object.GetResourceVersion()
	d.more.Broadcast()
}

// wait waits until the handler has received the event with a version.
func (d *delivery) wait(ctx context.Context, version string) error {
	defer broadcastAfter(ctx, d.more)()
	d.mu.Lock()
	defer d.mu.Unlock()
	for isLater(version, d.seen) && ctx.Err() == nil {
		d.more.Wait()
	}
	return ctx.Err()
}

// await waits until all handlers have received the events of all planned writes.
func (r *Run) await(ctx context.Context) error {
	grown := r.server.size()
	if grown == r.handled {
		return nil
	}
	for _, d := range r.deliveries {
		if err := d.wait(ctx, r.server.lastEvent(d.list, r.handled)); err != nil {
			return err
		}
	}
	r.handled = grown
	return nil
}
