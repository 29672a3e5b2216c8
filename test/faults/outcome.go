package faults

// outcome is the result of a run.
type outcome struct {
	points           faultPoints
	violations       []string
	reconciles       []reconcile
	writes           map[string]int // the number of writes, by the ID of the reconcile
	recoveryRequests int            // the number of requests of the second process
	requests         int            // the number of requests to the API server and to PostgreSQL
	requestsPerHour  float64        // at rest
	reachedPoint     bool
	final            map[string]any // the final state of all objects, by full name
	created          map[string]int // the number of creations of each object
	deleted          map[string]int
	passwords        map[string]int // the number of passwords that each Secret has had
}

// reconcile is a reconcile that a process has logged.
type reconcile struct {
	id, object, result string
	interval           int
	afterFault         bool // the reconcile ended after the fault was over
}

// failed reports whether a reconcile has to be repeated because of an error. Outdated caches, conflicts, and
// errors that no retry can fix do not count.
func (r reconcile) failed() bool {
	switch r.result {
	case "success", "requeue_after", "wait", "postponed", "conflict", "degraded":
		return false
	}
	return true
}
