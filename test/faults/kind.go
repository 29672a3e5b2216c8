package faults

import (
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// kind declares the scenarios of a kind. S is the type of the spec.
type kind[S any] struct {
	name, resource string
	sql            bool
	// pruningFields are the fields whose changes can delete a child. All changes of these fields have faults, but only the
	// first change of any other field has faults.
	pruningFields []string
	// orphaned are the full names of the objects that must exist after the children were orphaned.
	orphaned []string
	fullSpec func() S
	// changes maps the JSON name of a field to changes of fullSpec.
	changes map[string][]func(*S)
	// createReferences creates the objects that the spec refers to.
	createReferences step
	object           func(u *user, spec S) metav1.Object
}

func (k kind[S]) create(u *user) {
	k.createReferences(u)
	u.create(windlass, k.resource, k.object(u, k.fullSpec()))
}

// createObject creates the object without its references.
func (k kind[S]) createObject(u *user) { u.create(windlass, k.resource, k.object(u, k.fullSpec())) }

func (k kind[S]) delete(u *user) {
	u.delete(windlass, k.resource, k.object(u, k.fullSpec()).GetName())
}

// orphan deletes the object and orphans its children, like kubectl delete --cascade=orphan.
func (k kind[S]) orphan(u *user) {
	u.orphan(windlass, k.resource, k.object(u, k.fullSpec()).GetName())
}

// deleteIfExists deletes the object, unless the fault has already deleted the object.
func (k kind[S]) deleteIfExists(u *user) {
	name := k.object(u, k.fullSpec()).GetName()
	for _, o := range u.run.history.current() {
		if o.resource == indexOf(windlass, k.resource) && o.Name == name {
			k.delete(u)
		}
	}
}

// update returns a step that replaces the spec of the object with a changed fullSpec.
func (k kind[S]) update(change func(*S)) step {
	return func(u *user) { u.update(windlass, k.resource, k.object(u, k.with(change).fullSpec())) }
}

// with returns a copy of the kind with a changed fullSpec.
func (k kind[S]) with(change func(*S)) kind[S] {
	fullSpec := k.fullSpec
	k.fullSpec = func() S {
		spec := fullSpec()
		change(&spec)
		return spec
	}
	return k
}

// driftScenario returns the scenario in which users change the children of an object at rest.
func (k kind[S]) driftScenario() scenario {
	return scenario{
		name: k.name + "-drifts", sql: k.sql, setUp: []step{k.create}, steps: []step{noAction}, driftKind: k.name,
	}
}

// scenarios returns the scenarios that App, Database, ExternalDatabase and Platform have in common: create, delete,
// delete and create again, delete early, orphan, and change each field.
func (k kind[S]) scenarios() []scenario {
	all := []scenario{
		{name: k.name + "-create", sql: k.sql, steps: []step{k.create}},
		{name: k.name + "-delete", sql: k.sql, setUp: []step{k.create}, steps: []step{k.delete}, check: leavesOnly()},
		{name: k.name + "-again", sql: k.sql, setUp: []step{k.create}, steps: []step{k.delete, k.createObject}},
		{
			name: k.name + "-early", sql: k.sql, steps: []step{k.create, k.deleteIfExists},
			earlyDeletion: indexOf(windlass, k.resource),
		},
		{
			name: k.name + "-orphan", sql: k.sql, setUp: []step{k.create}, steps: []step{
				k.orphan,
			}, check: leavesOrphans(k.resource, k.orphaned...),
		},
	}
	for _, field := range slices.Sorted(maps.Keys(k.changes)) {
		for i, change := range k.changes[field] {
			all = append(all, scenario{
				name: fmt.Sprintf("%s-%s-%d", k.name, field, i+1), sql: k.sql, setUp: []step{
					k.create,
				}, steps: []step{k.update(change)},
				freshSteps: []step{k.with(change).create}, noSecondDeaths: true, noFaults: i > 0 &&
					!slices.Contains(k.pruningFields, field),
			})
		}
	}
	return all
}
