package faults

import (
	"fmt"
	"slices"
	"strings"
)

// plan is one fault at one point of a scenario. The zero plan is none.
type plan struct {
	scenario string
	point    string // of a request or event, as in the record of the reference, or of rest
	fault    string
	again    int // the request of the recovery at which the process dies once more; 0 for none
}

// String is the name by which a plan is repeated.
func (p plan) String() string {
	name := p.scenario + "/" + p.point + "/" + p.fault
	if p.again > 0 {
		name += fmt.Sprintf("/again-%d", p.again)
	}
	return name
}

// What may happen to a request.
const (
	diesBefore = "dies-before" // the process, before the request is sent
	diesAfter  = "dies-after"  // the process, when the request was carried out
	answerLost = "answer-lost" // the request is carried out, and the connection ends
	answerLate = "answer-late" // the request is answered when all that it caused has been seen
	leaseLost  = "lease-lost"  // another process works meanwhile; then this one goes on with its pass
	twoLeaders = "two-leaders" // another process works beside this one for five seconds
	early      = "early"       // somebody deletes the object meanwhile, instead of later
)

// refusals are the answers that a request may get instead of being carried out, but for
// 504: that says that nobody knows, and the request was carried out.
var refusals = []string{"403", "404", "409", "422", "429", "500", "503", "504"}

// What may happen to a statement of SQL, beside the death of the process.
const connectionCut = "connection-cut" // before the server hears of it

// What may happen to an event.
const (
	frozen    = "frozen"     // nothing more is delivered of its type until all is at rest; where somebody deletes, until after that
	dropped   = "dropped"    // it is never delivered; its type is listed anew when all is at rest
	twice     = "twice"      // it is delivered twice
	expired   = "expired"    // instead of it comes 410, and a new list
	tombstone = "tombstone"  // the same, of a deletion: the object is missing in the list
	staleList = "stale-list" // the process dies, and the next is served a list from before it
	oldList   = "old-list"   // the same at the end of the scenario
)

// What may happen at a point of rest, beside what may happen to each owned object there.
const (
	clockForward = "clock+1h"
	clockBack    = "clock-1h"
	isDeleted    = "deleted"
	isUnlabelled = "unlabelled"
	isUnowned    = "unowned"
)

// ofObjects are the faults whose names end in the object that they happen to.
var ofObjects = []string{isDeleted, isUnlabelled, isUnowned, isChanged, isRemoved, isRepeated}

// derive returns the plans for what a reference has recorded, without second deaths.
func derive(s *scenario, of record) []plan {
	var plans []plan
	add := func(point string, faults ...string) {
		for _, fault := range faults {
			plans = append(plans, plan{scenario: s.name, point: point, fault: fault})
		}
	}
	for _, id := range of.requests {
		if s.polls() && strings.Contains(id, ".") && !strings.Contains(id, ".status") {
			continue // each is as the first
		}
		if !s.known {
			add(id, faultsAt(id)...)
		}
		if s.early > 0 && !isSQL(id) && slices.Contains(of.requests[:of.untilLast], id) {
			add(id, early)
		}
	}
	for _, id := range of.events {
		add(id, frozen, dropped, twice)
		if s.isAt() || strings.Contains(s.name, "-early") || strings.HasPrefix(id, "event-deleted-") {
			add(id, oldList)
		}
		if strings.HasPrefix(id, "event-deleted-") {
			add(id, tombstone, staleList)
		} else {
			add(id, expired)
		}
	}
	if s.known {
		return plans
	}
	if s.drifts != "" {
		add(restPoint(0), of.drifts...)
		return plans
	}
	for i, owned := range of.rests {
		point := restPoint(i)
		add(point, clockForward, clockBack)
		for _, object := range owned {
			add(point, isDeleted+"-"+object, isUnlabelled+"-"+object)
			if !strings.HasPrefix(object, "pods-") { // which is nobody's then, as in at-taken
				add(point, isUnowned+"-"+object)
			}
		}
	}
	return plans
}

// faultsAt is what may happen to a request.
func faultsAt(id string) []string {
	if isSQL(id) {
		return []string{diesBefore, diesAfter, connectionCut, answerLost}
	}
	return append([]string{diesBefore, diesAfter, answerLost, answerLate, leaseLost, twoLeaders}, refusals...)
}

func isSQL(id string) bool { return strings.HasPrefix(id, "sql-") }

func restPoint(i int) string { return fmt.Sprintf("rest-%d", i+1) }

// diesOnce tells whether the process dies by the plan, so that the next may do so too.
// Before a request it has the same behind it as after the last.
func (p plan) diesOnce() bool { return p.fault == diesAfter && p.again == 0 }

// secondDeaths are the plans in which the process that takes over dies too, at each of
// the requests that it sends otherwise.
func (p plan) secondDeaths(recovery int) []plan {
	var plans []plan
	for n := range recovery {
		second := p
		second.again = n + 1
		plans = append(plans, second)
	}
	return plans
}

// kindOfFault is the row of the table that a plan is counted in.
func (p plan) kindOfFault() string {
	if p.again > 0 {
		return "dies twice"
	}
	for _, fault := range ofObjects { // of each object
		if strings.HasPrefix(p.fault, fault+"-") {
			return fault
		}
	}
	return p.fault
}

// record is what a run can be disturbed at.
type record struct {
	requests []string // of the API server and of SQL servers, in the order of the reference
	// untilLast is how many of them come before the last step.
	untilLast int
	events    []string
	rests     [][]string // at each point of rest, the objects that are owned
	drifts    []string   // what users can do to children at the first one
	refused   int        // how much of that the API server refuses, or undoes
}

// differs tells how two records do, in a line; empty if they do not.
func (a record) differs(b record) string {
	for what, pair := range map[string][2][]string{"requests": {a.requests, b.requests}, "events": {a.events, b.events}, "rests": {flat(a.rests), flat(b.rests)}, "drifts": {a.drifts, b.drifts}} {
		if !slices.Equal(slices.Sorted(slices.Values(pair[0])), slices.Sorted(slices.Values(pair[1]))) {
			return fmt.Sprintf("%s: %v and %v", what, pair[0], pair[1])
		}
	}
	return ""
}

func flat(rests [][]string) (all []string) {
	for i, rest := range rests {
		for _, object := range rest {
			all = append(all, restPoint(i)+" "+object)
		}
	}
	return all
}
