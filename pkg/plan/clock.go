package plan

import (
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

// Clock is the clock of controllers in a plan. It is the real clock, except while a Run plans what happens at a later
// time.
type Clock struct {
	clock.RealClock

	offset atomic.Int64 // a time.Duration
}

// Now implements clock.PassiveClock.
func (c *Clock) Now() time.Time { return c.RealClock.Now().Add(time.Duration(c.offset.Load())) }

// Since implements clock.PassiveClock.
func (c *Clock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

func (c *Clock) set(now time.Time) { c.offset.Store(int64(now.Sub(c.RealClock.Now()))) }

func (c *Clock) reset() { c.offset.Store(0) }
