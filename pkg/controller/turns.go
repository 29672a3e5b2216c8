package controller

import (
	"container/list"
	"time"
)

// turns is one lane of a Queue. Tenants take turns, and the keys of each tenant are in the order of
// their arrival. A tenant that adds thousands of keys does not delay the keys of others.
type turns struct {
	order list.List // of *line, in the order of their turns; each has at least one key
	lines map[tenant]*line
}

// line is a tenant with its queued keys.
type line struct {
	tenant tenant
	keys   list.List     // of Keys
	turn   *list.Element // in turns.order
}

// entry is the position of a queued key.
type entry struct {
	lane    Lane
	line    *line
	element *list.Element
	since   time.Time // when the key was queued
}

func newTurns() *turns { return &turns{lines: map[tenant]*line{}} }

func (t *turns) empty() bool { return len(t.lines) == 0 }

// add appends a key to its tenant's line.
func (t *turns) add(key Key, lane Lane) *entry {
	whose := tenantOf(key)
	l := t.lines[whose]
	if l == nil {
		l = &line{tenant: whose}
		l.turn = t.order.PushBack(l)
		t.lines[whose] = l
	}
	return &entry{lane: lane, line: l, element: l.keys.PushBack(key)}
}

// remove removes a key from its line.
func (t *turns) remove(e *entry) {
	e.line.keys.Remove(e.element)
	if e.line.keys.Len() == 0 {
		t.order.Remove(e.line.turn)
		delete(t.lines, e.line.tenant)
	}
}

// take removes and returns the first key of the tenant with the fewest workers. If several tenants have
// the fewest workers, take chooses the tenant whose turn is next. The chosen tenant goes to the end of
// the order. take stops at the first tenant without a worker, so it looks at no more tenants than there
// are workers, plus one.
func (t *turns) take(workers func(tenant) int) Key {
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
	first := next.keys.Front()
	t.remove(&entry{line: next, element: first})
	return first.Value.(Key)
}
