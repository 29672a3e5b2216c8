package controller_test

import (
	"slices"
	"testing"

	"k8s.io/utils/clock"

	"windlass.dev/windlass/pkg/controller"
)

// FuzzLanes applies the same operations to a Queue and to a model of it. Each byte is one operation: its
// first two bits are the operation, the next two the namespace of the key, and the others its name. Each
// cluster-scoped key, which has no namespace, is a tenant of its own.
func FuzzLanes(f *testing.F) {
	f.Add([]byte{0x01, 0x41, 0x80, 0xc0, 0x02, 0x42, 0x80, 0xc0})
	f.Add([]byte("urgent and background keys, in and out"))
	starving := []byte{0x3f}
	for key := range byte(0x20) {
		starving = append(starving, 0x40|key, 0x40|(key+1), 0x80, 0xc0)
	}
	f.Add(starving)
	// Three tenants have keys. The second of two workers is done before the first.
	f.Add([]byte{
		0x50, 0x51, 0x52, 0x53, 0x80, 0x80, 0x60, 0x61, 0x40, 0x41,
		0x80, 0x80, 0x80, 0xc0, 0x80, 0xc0, 0x80, 0x54, 0x80, 0x80,
	})
	// Keys are added again, to the other lane, while they wait and while a worker has them.
	f.Add([]byte{0x10, 0x11, 0x51, 0x80, 0x10, 0x51, 0x50, 0x10, 0x80, 0xc0, 0xc0, 0x80, 0x80})
	// A key that was urgent until a worker took it is added behind another key of the background lane.
	f.Add([]byte{0x50, 0x80, 0xc0, 0x11, 0x10, 0x80, 0x80})
	f.Fuzz(func(t *testing.T, ops []byte) {
		q := controller.NewQueue("", clock.RealClock{})
		defer q.ShutDown()
		m := model{again: map[controller.Key]controller.Lane{}}
		for _, op := range ops {
			key := controller.Key{Namespace: []string{"", "a", "b", "c"}[op>>4&3], Name: string(rune('0' + op&0xf))}
			switch op >> 6 {
			case 0, 1:
				lane := controller.Lane(op >> 6)
				q.Add(key, lane)
				m.add(key, lane)
			case 2:
				if m.len() == 0 {
					break
				}
				got, _ := q.Get()
				if want := m.get(); got != want {
					t.Fatalf("Get returned %s, wanted %s", got, want)
				}
			case 3:
				if len(m.working) > 0 {
					q.Done(m.working[0])
					m.done()
				}
			}
			if q.Len() != m.len() {
				t.Fatalf("%d keys wait, wanted %d", q.Len(), m.len())
			}
		}
	})
}

// model is a simple model of a Queue without timers.
type model struct {
	waiting [2][]controller.Key // by Lane
	turns   [2][]string         // tenants with queued keys, by Lane
	working []controller.Key
	again   map[controller.Key]controller.Lane // keys that were added while a worker had them
	streak  int
}

func (m *model) len() int { return len(m.waiting[0]) + len(m.waiting[1]) }

// tenantOf returns the tenant of a key.
func tenantOf(key controller.Key) string {
	if key.Namespace == "" {
		return "/" + key.Name
	}
	return key.Namespace
}

func (m *model) add(key controller.Key, lane controller.Lane) {
	late := slices.Contains(m.waiting[controller.Background], key)
	switch {
	case slices.Contains(m.working, key):
		m.again[key] = max(m.again[key], lane)
	case slices.Contains(m.waiting[controller.Urgent], key), late && lane == controller.Background:
	default:
		if late {
			m.remove(key, controller.Background)
		}
		m.push(key, lane)
	}
}

func (m *model) push(key controller.Key, lane controller.Lane) {
	m.waiting[lane] = append(m.waiting[lane], key)
	if !slices.Contains(m.turns[lane], tenantOf(key)) {
		m.turns[lane] = append(m.turns[lane], tenantOf(key))
	}
}

func (m *model) remove(key controller.Key, lane controller.Lane) {
	m.waiting[lane] = slices.DeleteFunc(m.waiting[lane], func(k controller.Key) bool { return k == key })
	if !slices.ContainsFunc(m.waiting[lane], func(k controller.Key) bool { return tenantOf(k) == tenantOf(key) }) {
		m.turns[lane] = slices.DeleteFunc(m.turns[lane], func(t string) bool { return t == tenantOf(key) })
	}
}

func (m *model) get() controller.Key {
	lane := controller.Urgent
	if len(m.waiting[controller.Urgent]) == 0 || len(m.waiting[controller.Background]) > 0 && m.streak >= 10 {
		lane = controller.Background
	}
	if m.streak++; lane == controller.Background {
		m.streak = 0
	}
	workers := func(tenant string) (n int) {
		for _, key := range m.working {
			if tenantOf(key) == tenant {
				n++
			}
		}
		return n
	}
	// MinFunc returns the first of several tenants with the fewest workers.
	next := slices.MinFunc(m.turns[lane], func(a, b string) int { return workers(a) - workers(b) })
	m.turns[lane] = append(slices.DeleteFunc(m.turns[lane], func(t string) bool { return t == next }), next)
	key := m.waiting[lane][slices.IndexFunc(m.waiting[lane], func(k controller.Key) bool { return tenantOf(k) == next })]
	m.remove(key, lane)
	m.working = append(m.working, key)
	return key
}

func (m *model) done() {
	key := m.working[0]
	m.working = m.working[1:]
	if lane, wanted := m.again[key]; wanted {
		delete(m.again, key)
		m.push(key, lane)
	}
}
