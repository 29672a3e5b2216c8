package controller

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
