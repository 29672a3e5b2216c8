package controller_test

import (
	"slices"
	"testing"

	"k8s.io/utils/clock"

	"windlass.dev/windlass/pkg/controller"
)

// FuzzLanes does the same things to a Queue and to a model of it. Each byte is
// one thing done: its first two bits say what, the others to which key.
func FuzzLanes(f *testing.F) {
	f.Add([]byte{0x01, 0x41, 0x80, 0xc0, 0x02, 0x42, 0x80, 0xc0})
	f.Add([]byte("urgent and background keys, in and out"))
	starving := []byte{0x3f}
	for key := range byte(0x20) {
		starving = append(starving, 0x40|key, 0x40|(key+1), 0x80, 0xc0)
	}
	f.Add(starving)
	f.Fuzz(func(t *testing.T, ops []byte) {
		q := controller.NewQueue("", clock.RealClock{})
		defer q.ShutDown()
		m := model{again: map[controller.Key]controller.Lane{}}
		for _, op := range ops {
			key := keyOf(string(rune('0' + op&0x3f)))
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

// model is a Queue without timers, as simple as can be.
type model struct {
	waiting [2][]controller.Key // by Lane
	working []controller.Key
	again   map[controller.Key]controller.Lane // wanted while they are worked on
	streak  int
}

func (m *model) len() int { return len(m.waiting[0]) + len(m.waiting[1]) }

func (m *model) add(key controller.Key, lane controller.Lane) {
	late := slices.Index(m.waiting[controller.Background], key)
	switch {
	case slices.Contains(m.working, key):
		m.again[key] = max(m.again[key], lane)
	case slices.Contains(m.waiting[controller.Urgent], key), late >= 0 && lane == controller.Background:
	default:
		if late >= 0 {
			m.waiting[controller.Background] = slices.Delete(m.waiting[controller.Background], late, late+1)
		}
		m.waiting[lane] = append(m.waiting[lane], key)
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
	key := m.waiting[lane][0]
	m.waiting[lane] = m.waiting[lane][1:]
	m.working = append(m.working, key)
	return key
}

func (m *model) done() {
	key := m.working[0]
	m.working = m.working[1:]
	if lane, wanted := m.again[key]; wanted {
		delete(m.again, key)
		m.waiting[lane] = append(m.waiting[lane], key)
	}
}
