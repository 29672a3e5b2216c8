package faults

// outcome is what a run has come to.
type outcome struct {
	record     record
	violations []string
	passes     []pass
	writers    map[string]int // how often a pass wrote, by its reconcileID
	recovery   int            // requests of the process that took over
	asked      int            // requests and statements so far
	atRest     float64        // of these, how many came in an hour of rest
	fired      bool
	final      map[string]any // the objects that are there in the end, by type and name
	created    map[string]int // how often there was a new object of a name
	deleted    map[string]int
	passwords  map[string]int // how many passwords a Secret has had in its life
}

// pass is a pass of a process, as its log tells of it.
type pass struct {
	id, object, result string
	turn               int
	after              bool // it ended when the fault was over
}

// failed tells whether a pass has to be done again because of what went wrong. One that
// was only out of date is not, nor one for something that nobody here can mend.
func (p pass) failed() bool {
	switch p.result {
	case "success", "requeue_after", "wait", "behind", "postponed", "conflict", "terminal", "degraded":
		return false
	}
	return true
}
