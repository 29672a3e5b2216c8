package controller

import (
	"math"
	"time"

	"windlass.dev/windlass/pkg/controller/conditions"
)

// retry says when the next reconcile starts.
type retry int

const (
	retryOnChange    retry = iota // when something changes
	retryAfter                    // after decision.after
	retryWithBackoff              // after 1 s, 2 s, 4 s … 5 min
	retryQuickly                  // after 5 ms, 10 ms … 1 s
)

// decision says how a reconcile ended and what the engine does next. The function classify returns it.
type decision struct {
	outcome Outcome
	retry   retry
	after   time.Duration
	lane    Lane
	// err is set if the reconcile failed in a way that is logged and counted.
	err error
	// quiet is true if the reconcile says nothing about the object, so that the status is not written.
	quiet bool
	// reason and message are the reason and the message of the condition Ready=False. The condition Degraded=True has them
	// too if degraded is set, and Stalled=True if stalled is set. If reason is empty, the decision changes no condition.
	reason, message   string
	degraded, stalled bool
	// warn is true if the Event of the transition is a Warning although the reconcile returned no error that is logged.
	warn bool
}

// retriedAfter returns d with a retry after a delay. If delay is not positive, d keeps its retry.
func (d decision) retriedAfter(delay time.Duration) decision {
	if delay > 0 {
		d.retry, d.after = retryAfter, delay
	}
	return d
}

// isSoon reports whether the next reconcile starts as soon as the caches have observed all writes.
func (d decision) isSoon() bool {
	return d.retry == retryQuickly || d.retry == retryAfter && d.after <= Soon
}

// setConditions sets the conditions that follow from the error of a reconcile. It changes nothing if reason is empty.
func (d decision) setConditions(obj Object) {
	if d.reason == "" {
		return
	}
	list := obj.StatusConditions()
	conditions.False(list, conditions.Ready, d.reason, d.message)
	if obj.GetDeletionTimestamp() != nil {
		conditions.True(list, conditions.Progressing, d.reason, d.message) // towards the removal of the object
	}
	if d.degraded {
		conditions.True(list, conditions.Degraded, d.reason, d.message)
	}
	if d.stalled {
		conditions.True(list, conditions.Stalled, d.reason, d.message)
		conditions.False(list, conditions.Progressing, d.reason, d.message)
	}
}

// rank orders decisions. Of several decisions, the engine follows the one with the lowest rank. A conflict has the
// lowest rank, because the other errors may come from the outdated cache.
func (d decision) rank() int {
	switch {
	case d.retry == retryQuickly:
		return 0
	case d.retry == retryWithBackoff:
		return 1
	case d.err != nil: // a Stalled error, or a write that the API server rejected as invalid
		return 2
	case !d.quiet: // an error of WaitFor, or Unreadable
		return 3
	default: // an error of Postpone
		return 4
	}
}

// retryDelay returns the time until the retry, or the longest possible time if only a change causes a retry.
func (d decision) retryDelay() time.Duration {
	if d.retry == retryOnChange {
		return math.MaxInt64
	}
	return d.after
}
