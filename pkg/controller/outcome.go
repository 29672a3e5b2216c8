package controller

import (
	"time"

	"windlass.dev/windlass/pkg/controller/conditions"
)

// Outcome classifies the end of a reconcile and decides what the engine does next. It is the value
// of the label "result" of the metric controller_runtime_reconcile_total.
type Outcome string

const (
	// OutcomeSuccess is Result{} without an error: the backoff is reset, and the next event starts the next reconcile.
	OutcomeSuccess Outcome = "success"
	// OutcomeRequeueAfter is a Result with RequeueAfter and no error: the backoff is reset, and the next reconcile starts
	// after that time. With Check, the next reconcile waits in the background lane.
	OutcomeRequeueAfter Outcome = "requeue_after"
	// OutcomeError is an error without an outcome of its own, or a panic that was recovered. The error is logged, sets
	// Ready=False, and is retried with a backoff per key of 1 s, 2 s, 4 s … 5 min.
	OutcomeError Outcome = "error"
	// OutcomeConflict means that the cache is outdated: the API server rejected a write with 409, or the reconcile was not
	// started because the cache lacks a write of this process. The reconcile is retried after 5 ms, 10 ms … 1 s. The
	// status is not written.
	OutcomeConflict Outcome = "conflict"
	// OutcomePostponed is a reconcile that says nothing about its object, so the status is not written. An error of
	// Postpone is retried after its time. The engine postpones an object that has used up its write budget. A write into a
	// namespace that is being deleted, and a reconcile that the end of the process interrupted, are retried like
	// OutcomeError.
	OutcomePostponed Outcome = "postponed"
	// OutcomeWait is an error of WaitFor. It sets Ready=False, and is retried after the given time or as soon as something
	// changes.
	OutcomeWait Outcome = "wait"
	// OutcomeDegraded is a problem that a user has to solve. It sets Degraded=True, and is retried when something changes.
	// An error of Stalled also sets Stalled=True, unless Unstalled wraps the error, and is also retried after its time. A
	// write that the API server rejected with 422 is also retried after 5 minutes. An Unreadable object is Stalled, and is
	// logged once. An object that exceeds the cache budget of its namespace is also retried each minute.
	OutcomeDegraded Outcome = "degraded"
)

// outcomes lists every Outcome, for the help text of the metric.
var outcomes = []Outcome{
	OutcomeSuccess, OutcomeRequeueAfter, OutcomeError, OutcomeConflict, OutcomePostponed, OutcomeWait, OutcomeDegraded,
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
	// quiet is true if the outcome says nothing about the object, so that the status is not written.
	quiet bool
	// reason and message are those of the conditions Ready=False and, if degraded or stalled is set, Degraded=True and
	// Stalled=True. If reason is empty, the outcome changes no condition.
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

// isSoon reports whether the next reconcile starts as soon as the caches have observed all writes.
func (o outcome) isSoon() bool { return o.retry == quickly || o.retry == after && o.after <= Soon }

func failed(reason string, err error) outcome {
	return outcome{name: OutcomeError, retry: backoff, err: err, reason: reason, message: err.Error()}
}

// setConditions sets the conditions that follow from the error of a reconcile. For an outcome without a reason, it
// changes nothing.
func (o outcome) setConditions(obj Object) {
	if o.reason == "" {
		return
	}
	list := obj.StatusConditions()
	conditions.False(list, conditions.Ready, o.reason, o.message)
	if obj.GetDeletionTimestamp() != nil {
		conditions.True(list, conditions.Progressing, o.reason, o.message) // towards the removal of the object
	}
	if o.degraded {
		conditions.True(list, conditions.Degraded, o.reason, o.message)
	}
	if o.stalled {
		conditions.True(list, conditions.Stalled, o.reason, o.message)
		conditions.False(list, conditions.Progressing, o.reason, o.message)
	}
}
