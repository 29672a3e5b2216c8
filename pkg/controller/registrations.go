package controller

import (
	"fmt"

	"k8s.io/client-go/tools/cache"
)

// registrations are the handlers of some controllers, with one registration for each informer.
type registrations map[cache.SharedInformer]cache.ResourceEventHandlerRegistration

// wrapper returns the handler that is registered with an informer in place of another handler.
type wrapper func(cache.SharedInformer, cache.ResourceEventHandler) cache.ResourceEventHandler

// register registers the handlers of controllers that wrap returns. The caller must call remove, also after an error.
func register(controllers []*Controller, wrap wrapper) (registrations, error) {
	all := map[cache.SharedInformer]handlers{}
	for _, c := range controllers {
		for _, w := range c.watches {
			all[w.informer] = append(all[w.informer], wrap(w.informer, w.handler))
		}
	}
	registered := registrations{}
	for informer, handlers := range all {
		registration, err := informer.AddEventHandler(handlers)
		if err != nil {
			return registered, fmt.Errorf("adding an event handler: %w", err)
		}
		registered[informer] = registration
	}
	return registered, nil
}

// synced returns checkers that are done once the handlers of a controller have received an event for every object of the initial lists.
// optional includes the optional watches.
func (r registrations) synced(c *Controller, optional bool) (synced []cache.DoneChecker) {
	for _, w := range c.watches {
		if !w.optional || optional {
			synced = append(synced, r[w.informer].HasSyncedChecker())
		}
	}
	return synced
}

// remove removes the handlers from the informers.
func (r registrations) remove() {
	for informer, registration := range r {
		_ = informer.RemoveEventHandler(registration) // no error of an informer that has a registration
	}
}

// handlers pass each event to several handlers, in order.
type handlers []cache.ResourceEventHandler

// OnAdd implements cache.ResourceEventHandler.
func (h handlers) OnAdd(obj any, isInInitialList bool) {
	for _, each := range h {
		each.OnAdd(obj, isInInitialList)
	}
}

// OnUpdate implements cache.ResourceEventHandler.
func (h handlers) OnUpdate(oldObj, newObj any) {
	for _, each := range h {
		each.OnUpdate(oldObj, newObj)
	}
}

// OnDelete implements cache.ResourceEventHandler.
func (h handlers) OnDelete(obj any) {
	for _, each := range h {
		each.OnDelete(obj)
	}
}
