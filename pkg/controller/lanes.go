package controller

import "sync"

// starvation bounds the wait of the background lane: after so many urgent keys
// in a row comes a background one, if there is any.
const starvation = 10

// lanes is the order of a Queue: urgent keys first, and in each lane the
// namespaces in turn. The workqueue around it calls Push, Pop, Touch and Len under its own
// lock; markUrgent and done are called outside of it, hence the lock here.
//
// A worker may take a key between markUrgent and the Add that follows. The key
// then waits in the background lane for a pass that it no longer needs: what
// made it urgent was in the cache before markUrgent, so the worker saw it.
type lanes struct {
	mu     sync.Mutex
	turns  [2]*turns // by Lane
	queued map[Key]*entry
	// marked are the keys that somebody wants urgently and that no worker has
	// taken yet.
	marked map[Key]struct{}
	// working is how many workers each tenant has.
	working map[tenant]int
	streak  int // urgent keys since the last background one
}

// tenant is whoever shares the workers with others: the objects of a namespace, or one
// cluster-scoped object.
type tenant Key

func tenantOf(key Key) tenant {
	if key.Namespace == "" {
		return tenant(key)
	}
	return tenant{Namespace: key.Namespace}
}

func newLanes() *lanes {
	return &lanes{
		turns:   [2]*turns{newTurns(), newTurns()},
		queued:  map[Key]*entry{},
		marked:  map[Key]struct{}{},
		working: map[tenant]int{},
	}
}

func (l *lanes) markUrgent(key Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.marked[key] = struct{}{}
}

// Push adds a key that does not wait yet.
func (l *lanes) Push(key Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lane := Background
	if _, urgent := l.marked[key]; urgent {
		lane = Urgent
	}
	l.queued[key] = l.turns[lane].add(key, lane)
}

// Touch is called when a key that waits is added again: it may have become
// urgent.
func (l *lanes) Touch(key Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, urgent := l.marked[key]
	e, waits := l.queued[key]
	if !urgent || !waits || e.lane == Urgent {
		return
	}
	l.turns[e.lane].remove(e)
	l.queued[key] = l.turns[Urgent].add(key, Urgent)
}

// Len is the number of keys that wait.
func (l *lanes) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queued)
}

// Pop takes the next key: that of a tenant whom no worker works for or, if there is none, of
// one with the fewest workers. A tenant whose reconciles are slow has all workers only as long
// as nobody else has a key that waits. It is called only when Len is not 0.
func (l *lanes) Pop() Key {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := l.turns[l.next()].take(func(t tenant) int { return l.working[t] })
	delete(l.queued, key)
	delete(l.marked, key)
	l.working[tenantOf(key)]++
	return key
}

// done records that the worker which has taken a key is free again.
func (l *lanes) done(key Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := tenantOf(key)
	if l.working[t]--; l.working[t] <= 0 {
		delete(l.working, t)
	}
}

func (l *lanes) next() Lane {
	switch {
	case l.turns[Urgent].empty(), !l.turns[Background].empty() && l.streak >= starvation:
		l.streak = 0
		return Background
	default:
		l.streak++
		return Urgent
	}
}
