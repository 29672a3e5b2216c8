package controller

import (
	"container/list"
	"sync"
)

// starvation bounds the wait of the background lane: after so many urgent keys
// in a row comes a background one, if there is any.
const starvation = 10

// lanes is the order of a Queue: urgent keys first, each lane in the order of
// arrival. The workqueue around it calls Push, Pop, Touch and Len under its own
// lock; markUrgent is called outside of it, hence the lock here.
//
// A worker may take a key between markUrgent and the Add that follows. The key
// then waits in the background lane for a pass that it no longer needs: what
// made it urgent was in the cache before markUrgent, so the worker saw it.
type lanes struct {
	mu     sync.Mutex
	lists  [2]list.List // of Keys, by Lane
	queued map[Key]*entry
	// marked are the keys that somebody wants urgently and that no worker has
	// taken yet.
	marked map[Key]struct{}
	streak int // urgent keys since the last background one
}

// entry is where a key waits.
type entry struct {
	lane    Lane
	element *list.Element
}

func newLanes() *lanes {
	return &lanes{queued: map[Key]*entry{}, marked: map[Key]struct{}{}}
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
	l.queued[key] = &entry{lane, l.lists[lane].PushBack(key)}
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
	l.lists[e.lane].Remove(e.element)
	e.lane, e.element = Urgent, l.lists[Urgent].PushBack(key)
}

// Len is the number of keys that wait.
func (l *lanes) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queued)
}

// Pop takes the next key. It is called only when Len is not 0.
func (l *lanes) Pop() Key {
	l.mu.Lock()
	defer l.mu.Unlock()
	lane := l.next()
	key := l.lists[lane].Remove(l.lists[lane].Front()).(Key)
	delete(l.queued, key)
	delete(l.marked, key)
	return key
}

func (l *lanes) next() Lane {
	switch {
	case l.lists[Urgent].Len() == 0, l.lists[Background].Len() > 0 && l.streak >= starvation:
		l.streak = 0
		return Background
	default:
		l.streak++
		return Urgent
	}
}
