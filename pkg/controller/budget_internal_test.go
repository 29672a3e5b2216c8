package controller

import (
	"fmt"
	"testing"
	"time"
)

func TestBudget(t *testing.T) {
	begin := time.Unix(1000, 0)
	b := newBudget[string](3, time.Second)
	for i, step := range []struct {
		at    time.Duration
		want  time.Duration
		spend bool
	}{
		{0, 0, true}, {0, 0, true}, {0, 0, true},
		{0, time.Second, true}, // spend does not extend the wait if the budget is used up
		{0, time.Second, false},
		{400 * time.Millisecond, 600 * time.Millisecond, false},
		{time.Second, 0, true},
		{time.Second, time.Second, false},
		{-time.Hour, 0, false}, // the clock was set back
		{time.Hour, 0, true}, {time.Hour, 0, true}, {time.Hour, 0, true},
		{time.Hour, time.Second, false},
	} {
		now := begin.Add(step.at)
		if got := b.wait("a", now); got != step.want {
			t.Errorf("step %d: the wait is %s, wanted %s", i, got, step.want)
		}
		if got := b.wait("b", now); got != 0 {
			t.Errorf("step %d: another key waits for %s", i, got)
		}
		if step.spend {
			b.spend("a", now)
		}
	}
}

func TestBudgetForgetsIdleKeys(t *testing.T) {
	now := time.Unix(1000, 0)
	b := newBudget[string](3, time.Second)
	for i := range 10000 {
		b.spend(fmt.Sprint(i), now)
	}
	if b.wait("a", now.Add(2*time.Minute)); len(b.fullAt) != 0 {
		t.Errorf("it remembers %d keys that have a full budget", len(b.fullAt))
	}
}
