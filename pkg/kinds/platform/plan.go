package platform

import (
	"slices"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
)

// fact is the desired and observed state of a component. The functions in this file choose the next step of each
// component from its fact.
type fact struct {
	name string
	// listed is false for a component that is no longer in the spec, or has another kind there. The state of
	// such a component is Removed.
	listed bool
	state  v1alpha1.ManagementState
	// needs are the dependencies of the component. had are its dependencies when its child was last written.
	needs, had []string

	// there reports whether an object with the name of the child exists.
	there bool
	// ours reports whether the object belongs to the Platform.
	ours bool
	// bound reports whether the object has an owner reference to the Platform. Garbage collection deletes such an object
	// with the Platform.
	bound bool
	// going reports whether the object is being deleted.
	going bool
	// ready reports whether the newest generation of the object is Ready.
	ready bool
	// announced reports whether the status lists the component, so that its child is known after the component is removed
	// from the spec.
	announced bool

	// task reports whether the component is an At, whose command runs once for each different spec.
	task bool
	// changed reports whether the spec of a task has changed since the command of its child started. A changed task is not
	// ready.
	changed bool
	// running reports whether the command of a task has started and not ended.
	running bool
	// noted reports whether the status lists the run of a task's child.
	noted bool
}

// verb is what the operator does with a component in a step.
type verb string

const (
	// leave the object as it is.
	leave verb = "leave"
	// keep the child in its desired state.
	keep verb = "keep"
	// queue until other components are Ready.
	queue verb = "queue"
	// succeed waits until the previous child, of another kind, is deleted.
	succeed verb = "succeed"
	// announce waits until the status lists the component.
	announce verb = "announce"
	// crowded waits until children of components that are no longer in the spec are deleted.
	crowded verb = "crowded"
	// blocked waits for the namespace.
	blocked verb = "blocked"
	// release the child.
	release verb = "release"
	// reclaim a released child before it is removed.
	reclaim verb = "reclaim"
	// hold the removal until the components that depend on this one are deleted.
	hold verb = "hold"
	// remove the child.
	remove verb = "remove"
	// rejected is the step of every component if the spec is invalid.
	rejected verb = "rejected"
	// await the deletion of the child.
	await verb = "await"
	// stay leaves the child as it is until the tasks that the component depends on have succeeded.
	stay verb = "stay"
	// finish waits until the command of a changed task has ended.
	finish verb = "finish"
	// note waits until the status lists the run of a changed task.
	note verb = "note"
	// rerun deletes the child of a changed task, so that it is created again.
	rerun verb = "rerun"
)

// acts reports whether the step can send a write.
func (v verb) acts() bool {
	return v == keep || v == release || v == reclaim || v == remove || v == rerun
}

// storesFirst reports whether the step waits until the status is stored.
func (v verb) storesFirst() bool { return v == announce || v == note }

// step is the next step of a component. others are the components that it waits for.
type step struct {
	verb   verb
	others []string
}

// plan holds all components. Their facts change as the reconcile carries out steps.
type plan struct {
	components []*component
	// listed maps the name of a component in the spec to the component. needing maps the name of a component to its
	// dependents, and needed to its dependencies.
	listed  map[string]*component
	needing map[string][]*component
	needed  map[string][]string
	// homeless reports whether nothing can be created, because the namespace cannot be used.
	homeless bool
	// left is the number of children of components that are no longer in the spec.
	left int
}

// maxLeft is how many children of components that are no longer in the spec may exist when another child is
// created. It bounds the status, which lists these components beside the 256 components of the spec.
const maxLeft = 64

func newPlan(components []*component) *plan {
	p := &plan{
		components: components,
		listed:     map[string]*component{}, needing: map[string][]*component{}, needed: map[string][]string{},
	}
	for _, c := range components {
		if c.listed {
			p.listed[c.name] = c
		}
		if !c.listed && c.there && c.ours {
			p.left++
		}
		for _, name := range c.edges() {
			p.needing[name] = append(p.needing[name], c)
			p.needed[c.name] = append(p.needed[c.name], name)
		}
	}
	return p
}

// edges returns the components that must be removed after this one. For a Removed component, they include its previous
// dependencies, so that one edit of the spec can remove a component together with its dependencies.
func (c *fact) edges() []string {
	if c.state != v1alpha1.Removed {
		return c.needs
	}
	all := slices.Concat(c.needs, c.had)
	slices.Sort(all)
	return slices.Compact(all)
}

// next decides what to do with a component.
func (p *plan) next(c *component) step {
	switch c.state {
	case v1alpha1.Unmanaged:
		if c.bound && !c.going {
			return step{verb: release}
		}
		return step{verb: leave}
	case v1alpha1.Removed:
		return p.nextOfRemoved(c)
	}
	if c.there {
		return p.nextOfExisting(c)
	}
	if slices.ContainsFunc(p.components, func(old *component) bool {
		return !old.listed && old.name == c.name && old.there && old.ours
	}) {
		return step{verb: succeed}
	}
	return p.nextOfMissing(c, keep)
}

// nextOfMissing decides what to do with a Managed component without a child. create is the step that creates
// the child.
func (p *plan) nextOfMissing(c *component, create verb) step {
	switch unmet := p.unmet(c); {
	case p.homeless:
		return step{verb: blocked}
	case p.left > maxLeft:
		return step{verb: crowded}
	case len(unmet) > 0:
		return step{queue, unmet}
	case !c.announced:
		return step{verb: announce}
	}
	return step{verb: create}
}

func (p *plan) nextOfRemoved(c *component) step {
	switch {
	case !c.there || !c.ours:
		return step{verb: leave}
	case c.going:
		return step{verb: await}
	case !c.bound:
		return step{verb: reclaim}
	}
	if holders := p.holders(c); len(holders) > 0 {
		return step{hold, holders}
	}
	return step{verb: remove}
}

// unmet returns the dependencies that a component waits for: dependencies that are not Ready, are Removed
// or are not in the spec, and Managed dependencies whose name belongs to an object of a user. If there is no
// such dependency, unmet returns the result of unfinished.
func (p *plan) unmet(c *component) []string {
	unmet := slices.DeleteFunc(slices.Clone(c.needs), func(name string) bool {
		g := p.listed[name]
		return g != nil && g.state != v1alpha1.Removed && g.ready && (g.ours || g.state == v1alpha1.Unmanaged)
	})
	if len(unmet) > 0 {
		return unmet
	}
	return p.unfinished(c)
}

// holders returns the components that must be deleted before this one, because they depend on it: Removed
// components, and Managed components unless the spec replaces this one with a component of another kind.
// Components in a dependency cycle, which several edits of the spec can cause, do not hold each other.
func (p *plan) holders(c *component) (names []string) {
	inCycle := p.dependencies(c) // every dependent that c depends on
	for _, g := range p.needing[c.name] {
		holds := g.there && g.ours && g.state != v1alpha1.Unmanaged && !inCycle[g.name]
		if holds && (g.state == v1alpha1.Removed || c.listed || p.listed[c.name] == nil) {
			names = append(names, g.name)
		}
	}
	return names
}
