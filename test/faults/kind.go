package faults

import (
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// kind is one of the kinds whose objects have a spec that is changed field by field.
type kind[S any] struct {
	name, resource string
	sql            bool
	// prunes are the fields of which every change has faults, since without them something
	// is deleted. Of the others the first has.
	prunes []string
	// left are some of what stays of an object that is deleted without its children.
	left       []string
	everything func() S
	// change of a field is to another value, and then to that of everything.
	changes map[string][]func(*S)
	// refers makes what the spec names.
	refers step
	object func(u *user, spec S) metav1.Object
}

func (k kind[S]) create(u *user) {
	k.refers(u)
	u.create(windlass, k.resource, k.object(u, k.everything()))
}

// recreate makes an object whose references are there already.
func (k kind[S]) recreate(u *user) { u.create(windlass, k.resource, k.object(u, k.everything())) }

func (k kind[S]) delete(u *user) {
	u.delete(windlass, k.resource, k.object(u, k.everything()).GetName())
}

// orphan is delete with --cascade=orphan.
func (k kind[S]) orphan(u *user) {
	u.orphan(windlass, k.resource, k.object(u, k.everything()).GetName())
}

// deleteIfThere is delete, unless somebody has done that before.
func (k kind[S]) deleteIfThere(u *user) {
	name := k.object(u, k.everything()).GetName()
	for _, o := range u.run.history.current() {
		if o.resource == indexOf(windlass, k.resource) && o.Name == name {
			k.delete(u)
		}
	}
}

// set replaces the spec.
func (k kind[S]) set(change func(*S)) step {
	return func(u *user) { u.replace(windlass, k.resource, k.object(u, k.but(change).everything())) }
}

// but is the kind with another spec.
func (k kind[S]) but(change func(*S)) kind[S] {
	everything := k.everything
	k.everything = func() S {
		spec := everything()
		change(&spec)
		return spec
	}
	return k
}

// drifted is a scenario in which users change the children of an object at rest.
func (k kind[S]) drifted() scenario {
	return scenario{name: k.name + "-drifts", sql: k.sql, setUp: []step{k.create}, steps: []step{nothing}, drifts: k.name}
}

// scenarios are those of each kind: create, each change, delete, and create again.
func (k kind[S]) scenarios() []scenario {
	all := []scenario{
		{name: k.name + "-create", sql: k.sql, steps: []step{k.create}},
		{name: k.name + "-delete", sql: k.sql, setUp: []step{k.create}, steps: []step{k.delete}, check: leaves()},
		{name: k.name + "-again", sql: k.sql, setUp: []step{k.create}, steps: []step{k.delete, k.recreate}},
		{name: k.name + "-early", sql: k.sql, steps: []step{k.create, k.deleteIfThere}, early: indexOf(windlass, k.resource)},
		{name: k.name + "-orphan", sql: k.sql, setUp: []step{k.create}, steps: []step{k.orphan}, check: orphans(k.resource, k.left...)},
	}
	for _, field := range slices.Sorted(maps.Keys(k.changes)) {
		for i, change := range k.changes[field] {
			all = append(all, scenario{
				name: fmt.Sprintf("%s-%s-%d", k.name, field, i+1), sql: k.sql, setUp: []step{k.create}, steps: []step{k.set(change)},
				fresh: []step{k.but(change).create}, few: true, calm: i > 0 && !slices.Contains(k.prunes, field),
			})
		}
	}
	return all
}
