package controller

import "time"

// Outcome classifies the end of a reconcile and decides what the engine does next. It is the value
// of the label "result" of the metric controller_runtime_reconcile_total.
type Outcome string

const (
	// OutcomeSuccess is Result{} without an error: the backoff is reset, and the next reconcile
	// starts with an event.
	OutcomeSuccess Outcome = "success"
	// OutcomeRequeueAfter is a Result with RequeueAfter and no error: the backoff is reset, and the
	// next reconcile starts after that time. With Check, it waits in the background lane.
	OutcomeRequeueAfter Outcome = "requeue_after"
	// OutcomeError is any error that has no outcome of its own: it is logged, sets Ready=False and is
	// retried with a backoff per key of 1 s, 2 s, 4 s … 5 min.
	OutcomeError Outcome = "error"
	// OutcomePanic is a panic, which is recovered, counted and then treated as an error.
	OutcomePanic Outcome = "panic"
	// OutcomeConflict is a write that the API server refused with 409, because the object had changed:
	// it is retried after 5 ms, 10 ms … 1 s. The status is not written.
	OutcomeConflict Outcome = "conflict"
	// OutcomeBehind is a reconcile that was not started, because the cache lacks a write of this
	// process: it is retried like OutcomeConflict. The status is not written.
	OutcomeBehind Outcome = "behind"
	// OutcomeCanceled is a reconcile that the end of the process interrupted. The status is not written.
	OutcomeCanceled Outcome = "canceled"
	// OutcomePostponed is an error of Postpone: it is retried after the given time. The status is not
	// written.
	OutcomePostponed Outcome = "postponed"
	// OutcomeThrottled is a reconcile that was not started, because its object has used up its budget
	// of writes: it is retried once the budget allows a write. The status is not written.
	OutcomeThrottled Outcome = "throttled"
	// OutcomeTerminating is a write into a namespace that is being deleted: it is retried like
	// OutcomeError. The status is not written.
	OutcomeTerminating Outcome = "terminating"
	// OutcomeWait is an error of WaitFor or StoreFirst: it sets Ready=False and is retried after the
	// given time, and when something changes.
	OutcomeWait Outcome = "wait"
	// OutcomeInvalid is a write that the API server refused with 422: it sets Degraded=True, and is
	// retried after 5 minutes, and when something changes.
	OutcomeInvalid Outcome = "invalid"
	// OutcomeUnreadable is an object whose cached version differs from the stored object: it sets
	// Degraded=True and Stalled=True, is logged once, and is retried when the object changes. An object that exceeds
	// the budget of its namespace is also retried each minute.
	OutcomeUnreadable Outcome = "unreadable"
	// OutcomeTerminal is an error of Terminal or Stalled: it sets Degraded=True and Stalled=True and
	// is retried when something changes. An error of Stalled is also retried after the given time.
	OutcomeTerminal Outcome = "terminal"
	// OutcomeDegraded is a terminal error that Unstalled wraps: only a part of the object cannot
	// progress, and Stalled is not set. It is retried like OutcomeTerminal.
	OutcomeDegraded Outcome = "degraded"
)

// outcomes lists every Outcome, for the help text of the metric.
var outcomes = []Outcome{
	OutcomeSuccess, OutcomeRequeueAfter, OutcomeError, OutcomePanic, OutcomeConflict, OutcomeBehind, OutcomeCanceled,
	OutcomePostponed, OutcomeThrottled, OutcomeTerminating, OutcomeWait, OutcomeInvalid, OutcomeUnreadable,
	OutcomeTerminal, OutcomeDegraded,
}

// retry says when the next reconcile starts.
type retry int

const (
	onChange retry = iota // when something changes
	after                 // after outcome.after
	backoff               // after 1 s, 2 s, 4 s … 5 min
	quickly               // after 5 ms, 10 ms … 1 s
)

// outcome says how a reconcile ended and what the engine does next.
type outcome struct {
	name  Outcome
	retry retry
	after time.Duration
	lane  Lane
	// err is set if the reconcile failed in a way that is logged and counted.
	err error
	// quiet is true if the outcome says nothing about the object. Its status is then not written.
	quiet bool
	// reason and message are the reason and message of Ready=False and, if degraded or stalled is set, of
	// Degraded=True and Stalled=True. Without a reason, the conditions that the kind set stay.
	reason, message   string
	degraded, stalled bool
	// warn is true if the Event of the transition is a Warning although the outcome is no error.
	warn bool
}

// in returns o with a retry after d. If d is not positive, o is retried when something changes.
func (o outcome) in(d time.Duration) outcome {
	if d > 0 {
		o.retry, o.after = after, d
	}
	return o
}

func failed(name Outcome, reason string, err error) outcome {
	return outcome{name: name, retry: backoff, err: err, reason: reason, message: err.Error()}
}
