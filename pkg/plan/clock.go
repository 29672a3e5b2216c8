package plan

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Clock is the clock of controllers in a plan. It is the real clock, except while a Run plans what happens at a later
// time.
type Clock struct {
	clock.RealClock

	mu     sync.Mutex
	offset time.Duration
}

// Now implements clock.PassiveClock.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.RealClock.Now().Add(c.offset)
}

// Since implements clock.PassiveClock.
func (c *Clock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

func (c *Clock) set(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset = now.Sub(c.RealClock.Now())
}

func (c *Clock) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset = 0
}
