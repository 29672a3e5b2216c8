package controller

import "container/list"

// turns holds values of tenants. Tenants take turns, and the values of each tenant are in the order of their arrival. A
// tenant that adds thousands of values does not delay the values of other tenants.
type turns[V any] struct {
	order list.List // of *line, in the order of their turns; each has at least one value
	lines map[tenant]*line
}

// tenant identifies all objects of a namespace, or one cluster-scoped object. Tenants share workers and queues.
type tenant Key

func tenantOf(key Key) tenant {
	if key.Namespace == "" {
		return tenant(key)
	}
	return tenant{Namespace: key.Namespace}
}

// line is a tenant with its values.
type line struct {
	tenant tenant
	values list.List     // of the type of the turns
	turn   *list.Element // in turns.order
}

// place is the position of a value.
type place struct {
	line    *line
	element *list.Element
}

func newTurns[V any]() *turns[V] { return &turns[V]{lines: map[tenant]*line{}} }

func (t *turns[V]) empty() bool { return len(t.lines) == 0 }

// add appends a value to the line of a tenant.
func (t *turns[V]) add(whose tenant, value V) place {
	l := t.lines[whose]
	if l == nil {
		l = &line{tenant: whose}
		l.turn = t.order.PushBack(l)
		t.lines[whose] = l
	}
	return place{line: l, element: l.values.PushBack(value)}
}

// remove removes a value from its line.
func (t *turns[V]) remove(p place) {
	p.line.values.Remove(p.element)
	if p.line.values.Len() == 0 {
		t.order.Remove(p.line.turn)
		delete(t.lines, p.line.tenant)
	}
}

// take removes and returns the first value of the tenant with the fewest workers. If several tenants have the fewest
// workers, take chooses the first of these tenants in the order. The chosen tenant goes to the end of the order. The
// search stops at a tenant without a worker, so it takes at most one step more than there are workers.
func (t *turns[V]) take(workers func(tenant) int) V {
	var next *line
	for turn := t.order.Front(); turn != nil; turn = turn.Next() {
		l := turn.Value.(*line)
		if next == nil || workers(l.tenant) < workers(next.tenant) {
			next = l
		}
		if workers(next.tenant) == 0 {
			break
		}
	}
	t.order.MoveToBack(next.turn)
	first := next.values.Front()
	t.remove(place{line: next, element: first})
	return first.Value.(V)
}

// dropNewest removes the newest value of the tenant with the most values. If several tenants have the most values,
// dropNewest prefers the given tenant. That tenant must have a value.
func (t *turns[V]) dropNewest(whose tenant) {
	longest := t.lines[whose]
	for _, l := range t.lines {
		if l.values.Len() > longest.values.Len() {
			longest = l
		}
	}
	t.remove(place{line: longest, element: longest.values.Back()})
}
