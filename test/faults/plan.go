package faults

import (
	"fmt"
	"slices"
	"strings"
)

// plan is one fault at one point of a scenario. The zero plan has no fault.
type plan struct {
	scenario    string
	point       string // the ID of a request or event of the reference run, or a point of rest
	fault       string
	secondDeath int // the request of the recovery at which the second process dies, from 1; 0 for none
}

// String returns the name of a plan, which the flag -faults.plan accepts.
func (p plan) String() string {
	name := p.scenario + "/" + p.point + "/" + p.fault
	if p.secondDeath > 0 {
		name += fmt.Sprintf("/again-%d", p.secondDeath)
	}
	return name
}

// Faults of a request.
const (
	diesBefore = "dies-before" // the process dies before the request is sent
	diesAfter  = "dies-after"  // the process dies after the request was executed
	answerLost = "answer-lost" // the request is executed, and the connection ends before the response
	answerLate = "answer-late" // the response arrives after all events of the request
	leaseLost  = "lease-lost"  // the process is suspended while another process works, and then continues its reconcile
	twoLeaders = "two-leaders" // another process works at the same time for five seconds
	early      = "early"       // the user deletes the object before this request instead of in the last step
	handedOver = "handed-over" // before this request, the process begins to release its shard; another process gets it
)

// rejections are the status codes of error responses. The API server does not execute the request, except for the fault
// 504, which means that the result is unknown.
var rejections = []string{"403", "404", "409", "422", "429", "500", "503", "504"}

// connectionCut is a fault of an SQL statement: the connection ends before the server receives the statement. The
// other faults of an SQL statement are diesBefore, diesAfter and answerLost.
const connectionCut = "connection-cut"

// Faults of an event.
const (
	frozen    = "frozen"     // nothing is sent until everything is at rest (with earlyDeletion: after the last step)
	dropped   = "dropped"    // the event is lost; the informer lists again when everything is at rest
	twice     = "twice"      // the event arrives twice
	expired   = "expired"    // a 410 and a new list arrive in place of the event
	tombstone = "tombstone"  // like expired, for a deletion: the new list lacks the object
	staleList = "stale-list" // the process dies, and the next process gets a list from before the event
	oldList   = "old-list"   // like staleList, but the process dies at the end of the scenario
)

// Faults at a point of rest. The faults objectDeleted, objectUnlabelled and objectUnowned change one owned object. Each
// owned object has a plan with each of these three faults, but a Pod has no plan with objectUnowned.
const (
	clockForward     = "clock+1h"
	clockBack        = "clock-1h"
	objectDeleted    = "deleted"
	objectUnlabelled = "unlabelled"
	objectUnowned    = "unowned"
)

// objectFaults are the faults that change one object. In a plan, the name of the object follows the name of the fault.
var objectFaults = []string{objectDeleted, objectUnlabelled, objectUnowned, fieldChanged, fieldRemoved, itemRepeated}

// derivePlans returns the plans for the points of a reference run, without second deaths.
func derivePlans(s *scenario, points faultPoints) []plan {
	var plans []plan
	add := func(point string, faults ...string) {
		for _, fault := range faults {
			plans = append(plans, plan{scenario: s.name, point: point, fault: fault})
		}
	}
	for _, id := range points.requests {
		if s.nameIsTaken() && strings.Contains(id, ".") && !strings.Contains(id, ".status") {
			continue // a repeated request has the same plans as the first
		}
		if !s.onlyEventFaults {
			add(id, requestFaults(id)...)
		}
		if s.losesPods {
			add(id, podLosses...)
		}
		if s.sharded {
			add(id, handedOver)
		}
		if s.earlyDeletion > 0 && !isSQL(id) && slices.Contains(points.requests[:points.beforeLastStep], id) {
			add(id, early)
		}
	}
	for _, id := range points.events {
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
	if s.onlyEventFaults {
		return plans
	}
	if s.driftKind != "" {
		add(restPoint(0), points.drifts...)
		return plans
	}
	for i, owned := range points.ownedAtRest {
		point := restPoint(i)
		add(point, clockForward, clockBack)
		for _, object := range owned {
			add(point, objectDeleted+"-"+object)
			if s.hasServers() && strings.HasPrefix(object, "pods-") {
				continue // the StatefulSet controller maintains the labels and the owner of this Pod
			}
			add(point, objectUnlabelled+"-"+object)
			if !strings.HasPrefix(object, "pods-") { // without an owner, the Pod is a foreign object: see the scenario at-taken
				add(point, objectUnowned+"-"+object)
			}
		}
	}
	return plans
}

// podLoginPrefix is the prefix of the IDs of logins to the simulated servers in Pods.
const podLoginPrefix = "sql-pod-login-"

// requestFaults returns the faults of a request, SQL statement or login.
func requestFaults(id string) []string {
	switch {
	case strings.HasPrefix(id, podLoginPrefix): // a login changes nothing, so other faults have the same effect
		return []string{diesAfter, connectionCut}
	case isSQL(id):
		return []string{diesBefore, diesAfter, connectionCut, answerLost}
	}
	return append([]string{diesBefore, diesAfter, answerLost, answerLate, leaseLost, twoLeaders}, rejections...)
}

func isSQL(id string) bool { return strings.HasPrefix(id, "sql-") }

func restPoint(i int) string { return fmt.Sprintf("rest-%d", i+1) }

// hasSecondDeaths reports whether plans with a second death follow from this plan. A death before a request has
// the same recovery as a death after the previous request.
func (p plan) hasSecondDeaths() bool { return p.fault == diesAfter && p.secondDeath == 0 }

// secondDeaths returns the plans in which the second process dies too: one plan for each request of its recovery.
func (p plan) secondDeaths(requests int) []plan {
	var plans []plan
	for n := range requests {
		second := p
		second.secondDeath = n + 1
		plans = append(plans, second)
	}
	return plans
}

// tableRow returns the name of the row that counts the plan in the table of results.
func (p plan) tableRow() string {
	if p.secondDeath > 0 {
		return "dies twice"
	}
	for _, fault := range objectFaults { // all objects share a row
		if strings.HasPrefix(p.fault, fault+"-") {
			return fault
		}
	}
	return p.fault
}

// faultPoints are the points of a run at which faults can happen.
type faultPoints struct {
	requests []string // the IDs of the requests to the API server and to PostgreSQL, in order
	// beforeLastStep is the number of requests before the last step.
	beforeLastStep int
	events         []string
	ownedAtRest    [][]string // the owned objects at each point of rest
	drifts         []string   // changes that users can make to children when nothing is left to do for the first time
	rejectedDrifts int        // the number of changes that the API server rejects or undoes
}

// diff returns a difference between the points of two runs, or "".
func (a faultPoints) diff(b faultPoints) string {
	for name, pair := range map[string][2][]string{
		"requests": {a.requests, b.requests}, "events": {a.events, b.events}, "rests": {
			flatten(a.ownedAtRest), flatten(b.ownedAtRest),
		}, "drifts": {a.drifts, b.drifts},
	} {
		if !slices.Equal(slices.Sorted(slices.Values(pair[0])), slices.Sorted(slices.Values(pair[1]))) {
			return fmt.Sprintf("%s: %v and %v", name, pair[0], pair[1])
		}
	}
	return ""
}

func flatten(rests [][]string) (all []string) {
	for i, objects := range rests {
		for _, object := range objects {
			all = append(all, restPoint(i)+" "+object)
		}
	}
	return all
}
