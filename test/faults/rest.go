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

// atRest notes a point of rest, and has happen there what the plan says.
func (r *run) atRest(i int) {
	var owned []*object
	var names []string
	for _, o := range r.history.current() {
		if isOwned(o) {
			owned = append(owned, o)
			names = append(names, r.nameOf(o))
		}
	}
	r.mu.Lock()
	r.outcome.record.rests = append(r.outcome.record.rests, names)
	r.mu.Unlock()
	if r.scenario.drifts != "" && r.plan == (plan{}) {
		r.findDrifts()
	}
	if r.injector.ages(r) {
		r.settle()
	}
	if !r.injector.fires(restPoint(i)) {
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
				r.byOthers(http.MethodPatch, o, "", string(types.JSONPatchType), patch)
			}
		}
		for _, o := range owned {
			if name, ok := strings.CutPrefix(fault, isDeleted+"-"); ok && name == r.nameOf(o) {
				r.delete(o)
			}
			if name, ok := strings.CutPrefix(fault, isUnlabelled+"-"); ok && name == r.nameOf(o) {
				r.patch(o, "", map[string]any{"metadata": map[string]any{"labels": nil}})
			}
			if name, ok := strings.CutPrefix(fault, isUnowned+"-"); ok && name == r.nameOf(o) {
				r.patch(o, "", map[string]any{"metadata": map[string]any{"ownerReferences": nil}})
			}
		}
	}
	r.settle()
}

// findDrifts notes what users can do to the children of the scenario's object.
func (r *run) findDrifts() {
	for _, o := range r.history.current() {
		if r.isChild(o) {
			r.outcome.record.drifts = append(r.outcome.record.drifts, r.driftsOf(o)...)
		}
	}
}

// rest checks that nothing is written any more.
func (r *run) rest(u *user) {
	before, asked, since := r.writes(), r.asked(), time.Now()
	for range r.resyncs() {
		r.await(r.quiet())
		r.drain()
	}
	r.outcome.atRest = float64(r.asked()-asked) / time.Since(since).Hours()
	if after := r.writes(); after != before {
		r.violate("%d writes at rest", after-before)
	}
	u.checkForeign()
}

// isOwned tells whether an object is a kind's.
func isOwned(o *object) bool {
	return slices.ContainsFunc(o.OwnerReferences, func(ref metav1.OwnerReference) bool {
		return slices.ContainsFunc(resources, func(t resource) bool {
			return t.own() && t.kind == ref.Kind && t.GroupVersion().String() == ref.APIVersion
		})
	})
}

// fullName is the type and name of an object.
func (r *run) fullName(o *object) string {
	return resources[o.resource].Resource + "/" + r.plain(o.Name)
}

// has tells whether there is an object of a full name.
func (r *run) has(name string) bool {
	return slices.ContainsFunc(r.history.current(), func(o *object) bool { return r.fullName(o) == name })
}

func (r *run) nameOf(o *object) string {
	return fmt.Sprintf("%s-%s", resources[o.resource].Resource, r.plain(o.Name))
}
