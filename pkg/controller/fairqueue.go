package controller

import "container/list"

// fairQueue holds values of tenants. Tenants take turns, and the values of each tenant are in the order of their
// arrival. A tenant that adds thousands of values does not delay the values of other tenants.
type fairQueue[V any] struct {
	order  list.List // of *tenantQueue, in the order of their turns; each has a value
	queues map[tenant]*tenantQueue
}

// tenant identifies all objects of a namespace, or one cluster-scoped object. Tenants share workers and queues.
type tenant Key

func tenantOf(key Key) tenant {
	if key.Namespace == "" {
		return tenant(key)
	}
	return tenant{Namespace: key.Namespace}
}

// tenantQueue is a tenant with its values.
type tenantQueue struct {
	tenant tenant
	values list.List     // of type V
	turn   *list.Element // in fairQueue.order
}

// place is the position of a value.
type place struct {
	queue   *tenantQueue
	element *list.Element
}

func newFairQueue[V any]() *fairQueue[V] { return &fairQueue[V]{queues: map[tenant]*tenantQueue{}} }

func (f *fairQueue[V]) empty() bool { return len(f.queues) == 0 }

// add appends a value to the queue of a tenant.
func (f *fairQueue[V]) add(tenant tenant, value V) place {
	q := f.queues[tenant]
	if q == nil {
		q = &tenantQueue{tenant: tenant}
		q.turn = f.order.PushBack(q)
		f.queues[tenant] = q
	}
	return place{queue: q, element: q.values.PushBack(value)}
}

// remove removes a value from its queue.
func (f *fairQueue[V]) remove(p place) {
	p.queue.values.Remove(p.element)
	if p.queue.values.Len() == 0 {
		f.order.Remove(p.queue.turn)
		delete(f.queues, p.queue.tenant)
	}
}

// take removes and returns the first value of the tenant with the fewest workers. If several tenants have the fewest
// workers, take chooses the first of these tenants in the order. The chosen tenant goes to the end of the order. The
// search stops at a tenant without a worker, so it takes at most one step more than there are workers.
func (f *fairQueue[V]) take(workers func(tenant) int) V {
	var next *tenantQueue
	for turn := f.order.Front(); turn != nil; turn = turn.Next() {
		q := turn.Value.(*tenantQueue)
		if next == nil || workers(q.tenant) < workers(next.tenant) {
			next = q
		}
		if workers(next.tenant) == 0 {
			break
		}
	}
	f.order.MoveToBack(next.turn)
	first := next.values.Front()
	f.remove(place{queue: next, element: first})
	return first.Value.(V)
}

// dropNewest removes the newest value of the tenant with the most values. If several tenants have the most values,
// dropNewest chooses preferred if it is one of these tenants. preferred must have a value.
func (f *fairQueue[V]) dropNewest(preferred tenant) {
	longest := f.queues[preferred]
	for _, q := range f.queues {
		if q.values.Len() > longest.values.Len() {
			longest = q
		}
	}
	f.remove(place{queue: longest, element: longest.values.Back()})
}
