package faults

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// handleRest records the point of rest after step i, and injects the fault of the plan if this is the plan's point.
func (r *run) handleRest(i int) {
	var owned []*object
	var names []string
	for _, o := range r.history.current() {
		if isOwned(o) || isServerPod(o) {
			owned = append(owned, o)
			names = append(names, r.dashedName(o))
		}
	}
	r.mu.Lock()
	r.outcome.points.ownedAtRest = append(r.outcome.points.ownedAtRest, names)
	r.mu.Unlock()
	if r.scenario.driftKind != "" && r.plan == (plan{}) {
		r.findDrifts()
	}
	if r.injector.killForOldList(r) {
		r.awaitRest()
	}
	if !r.injector.reaches(restPoint(i)) {
		return
	}
	r.log("!!", nil, r.plan.String(), nil, nil)
	switch fault := r.plan.fault; fault {
	case clockForward:
		r.clock.set(time.Hour)
	case clockBack:
		r.clock.set(-time.Hour)
	default:
		for _, o := range r.history.current() {
			if patch, ok := r.driftPatch(o, fault); ok {
				r.externalWriteTo(http.MethodPatch, o, "", string(types.JSONPatchType), patch)
			}
		}
		for _, o := range owned {
			if name, ok := strings.CutPrefix(fault, objectDeleted+"-"); ok && name == r.dashedName(o) {
				r.delete(o)
			}
			if name, ok := strings.CutPrefix(fault, objectUnlabelled+"-"); ok && name == r.dashedName(o) {
				r.patch(o, "", map[string]any{"metadata": map[string]any{"labels": nil}})
			}
			if name, ok := strings.CutPrefix(fault, objectUnowned+"-"); ok && name == r.dashedName(o) {
				r.patch(o, "", map[string]any{"metadata": map[string]any{"ownerReferences": nil}})
			}
		}
	}
	r.awaitRest()
}

// findDrifts records the changes that users can make to the children of the scenario's object.
func (r *run) findDrifts() {
	for _, o := range r.history.current() {
		if r.isChild(o) {
			r.outcome.points.drifts = append(r.outcome.points.drifts, r.driftFaults(o)...)
		}
	}
}

// checkRest counts the operator's requests per hour at rest, and checks that the operator writes nothing at rest and
// that foreign objects are unchanged.
func (r *run) checkRest(u *user) {
	before, requests, since := r.writes(), r.requests(), time.Now()
	for range r.resyncs() {
		r.await(r.quietPeriod())
		r.deliverEvents()
	}
	r.outcome.requestsPerHour = float64(r.requests()-requests) / time.Since(since).Hours()
	if after := r.writes(); after != before {
		r.addViolation("the operator sent %d writes at rest", after-before)
	}
	if r.plan.fault == handedOver && r.processCount == 1 {
		r.addViolation("no other process has taken the shard")
	}
	u.checkForeignObjects()
	if check := u.run.scenario.invariant; check != nil {
		check(u)
	}
}

// isOwned reports whether an object has an owner of one of the operator's kinds.
func isOwned(o *object) bool {
	return slices.ContainsFunc(o.OwnerReferences, func(ref metav1.OwnerReference) bool {
		return slices.ContainsFunc(resources, func(t resource) bool {
			return t.isKind() && t.kind == ref.Kind && t.GroupVersion().String() == ref.APIVersion
		})
	})
}

// fullName returns the resource and the name of an object, for example secrets/shop-credentials. In the name, "ns"
// replaces the namespace of the run.
func (r *run) fullName(o *object) string {
	return resources[o.resource].Resource + "/" + r.stableName(o.Name)
}

// hasObject reports whether an object with this full name exists.
func (r *run) hasObject(name string) bool {
	return slices.ContainsFunc(r.history.current(), func(o *object) bool { return r.fullName(o) == name })
}

func (r *run) dashedName(o *object) string {
	return fmt.Sprintf("%s-%s", resources[o.resource].Resource, r.stableName(o.Name))
}
