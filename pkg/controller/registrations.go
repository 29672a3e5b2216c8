package controller

import (
	"fmt"

	"k8s.io/client-go/tools/cache"
)

// registrations has one registration for each informer that a set of controllers watches. The key is the store of the
// informer, because each call of Informer of a generated factory returns the same informer in another wrapper.
type registrations map[cache.Store]registration

type registration struct {
	informer cache.SharedInformer
	handlers fanOut
	handle   cache.ResourceEventHandlerRegistration // nil until the handlers are registered
}

// wrapper returns the handler to register with an informer in place of the given handler.
type wrapper func(cache.SharedInformer, cache.ResourceEventHandler) cache.ResourceEventHandler

// register registers the handlers of the controllers. If wrap is not nil, register passes each handler to wrap, and
// registers what wrap returns. The caller must call remove, also after an error.
func register(controllers []*Controller, wrap wrapper) (registrations, error) {
	all := registrations{}
	for _, c := range controllers {
		for _, w := range c.watches {
			if wrap != nil {
				w.handler = wrap(w.informer, w.handler)
			}
			r := all[w.informer.GetStore()]
			r.informer, r.handlers = w.informer, append(r.handlers, w.handler)
			all[w.informer.GetStore()] = r
		}
	}
	for store, r := range all {
		var err error
		if r.handle, err = r.informer.AddEventHandler(r.handlers); err != nil {
			return all, fmt.Errorf("adding an event handler: %w", err)
		}
		all[store] = r
	}
	return all, nil
}

// synced returns checkers that are done once the handlers of a controller have received an event for every object of
// the initial lists. If optional is true, the result includes the checkers of optional watches.
func (all registrations) synced(c *Controller, optional bool) (synced []cache.DoneChecker) {
	for _, w := range c.watches {
		if !w.optional || optional {
			synced = append(synced, all[w.informer.GetStore()].handle.HasSyncedChecker())
		}
	}
	return synced
}

// remove removes the handlers from the informers.
func (all registrations) remove() {
	for _, r := range all {
		if r.handle != nil {
			_ = r.informer.RemoveEventHandler(r.handle) // an informer with a registration returns no error
		}
	}
}

// fanOut passes each event to several handlers, in order.
type fanOut []cache.ResourceEventHandler

// OnAdd implements cache.ResourceEventHandler.
func (h fanOut) OnAdd(obj any, isInInitialList bool) {
	for _, each := range h {
		each.OnAdd(obj, isInInitialList)
	}
}

// OnUpdate implements cache.ResourceEventHandler.
func (h fanOut) OnUpdate(oldObj, newObj any) {
	for _, each := range h {
		each.OnUpdate(oldObj, newObj)
	}
}

// OnDelete implements cache.ResourceEventHandler.
func (h fanOut) OnDelete(obj any) {
	for _, each := range h {
		each.OnDelete(obj)
	}
}
