package platform

import (
	"slices"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
)

// fact is what is known of a component, for the decision what to do next. All
// decisions are in this file, and are pure.
type fact struct {
	name string
	// listed is false for a component that the spec has no more, or has with another
	// kind. Its state is Removed.
	listed bool
	state  v1alpha1.ManagementState
	// needs are the components that it depends on, by the spec, and had those that it
	// depended on when its child was last written.
	needs, had []string

	// there tells whether some object has the child's name.
	there bool
	// ours tells whether it is the Platform's to write and delete.
	ours bool
	// bound tells whether it bears the Platform's reference, so that it goes with it.
	bound bool
	// going tells whether it is being deleted.
	going bool
	// ready tells whether its newest generation is Ready.
	ready bool
	// announced tells whether the status lists it, so that its child is known whatever the
	// spec says later.
	announced bool
}

// verb is what to do with a component.
type verb string

const (
	// leave it as it is.
	leave verb = "leave"
	// keep its child as it is written.
	keep verb = "keep"
	// queue for its start, until others are Ready.
	queue verb = "queue"
	// succeed is a start that waits for the child of another kind that it replaces to go.
	succeed verb = "succeed"
	// announce is a start that waits for the status to list the component.
	announce verb = "announce"
	// crowded is a start that waits for children to go that are off the list.
	crowded verb = "crowded"
	// blocked is a start that waits for the namespace.
	blocked verb = "blocked"
	// release its child.
	release verb = "release"
	// reclaim a child that was let go, so that it is known until it is removed.
	reclaim verb = "reclaim"
	// hold its removal, for those that need it to go.
	hold verb = "hold"
	// remove its child.
	remove verb = "remove"
	// refused is every step of a spec that cannot be carried out.
	refused verb = "refused"
	// await the end of a child that is being deleted.
	await verb = "await"
)

// acts tells whether something is written for it.
func (v verb) acts() bool { return v == keep || v == release || v == reclaim || v == remove }

// step is what to do with a component, and because of which others.
type step struct {
	verb   verb
	others []string
}

// plan is all that decisions are made on. The facts change as it is carried out.
type plan struct {
	facts  []*fact
	listed map[string]*fact
	// needing are those that need a component of a name, and rings what inRings returns.
	needing map[string][]*fact
	rings   map[*fact]int
	// homeless says that nothing can be made, since the namespace is not there.
	homeless bool
	// left is how many children there are of components that are off the list.
	left int
}

// maxLeft is how many children of components that are off the list there may be when
// another child is made. It bounds the status: at most 256 listed components were made
// beside them, and 256 others can be listed then.
const maxLeft = 64

func newPlan(facts []*fact) *plan {
	p := &plan{facts: facts, listed: map[string]*fact{}, needing: map[string][]*fact{}}
	for _, f := range facts {
		if f.listed {
			p.listed[f.name] = f
		}
		if !f.listed && f.there && f.ours {
			p.left++
		}
		for _, name := range f.edges() {
			p.needing[name] = append(p.needing[name], f)
		}
	}
	p.rings = p.inRings()
	return p
}

// edges are the components before which one is removed. Of one that is Removed itself
// they are those too which its spec has named before: to be rid of both takes one edit.
func (f *fact) edges() []string {
	if f.state != v1alpha1.Removed {
		return f.needs
	}
	all := slices.Concat(f.needs, f.had)
	slices.Sort(all)
	return slices.Compact(all)
}

// next decides what to do with a component.
func (p *plan) next(f *fact) step {
	switch f.state {
	case v1alpha1.Unmanaged:
		if f.bound && !f.going {
			return step{verb: release}
		}
		return step{verb: leave}
	case v1alpha1.Removed:
		return p.nextOfRemoved(f)
	}
	if f.there {
		return step{verb: keep}
	}
	if slices.ContainsFunc(p.facts, func(old *fact) bool { return !old.listed && old.name == f.name && old.there && old.ours }) {
		return step{verb: succeed}
	}
	switch unmet := p.unmet(f); {
	case p.homeless:
		return step{verb: blocked}
	case p.left > maxLeft:
		return step{verb: crowded}
	case len(unmet) > 0:
		return step{queue, unmet}
	case !f.announced:
		return step{verb: announce}
	}
	return step{verb: keep}
}

func (p *plan) nextOfRemoved(f *fact) step {
	switch {
	case !f.there || !f.ours:
		return step{verb: leave}
	case f.going:
		return step{verb: await}
	case !f.bound:
		return step{verb: reclaim}
	}
	if holders := p.holders(f); len(holders) > 0 {
		return step{hold, holders}
	}
	return step{verb: remove}
}

// unmet are the components that must be Ready before one is started, and are not.
func (p *plan) unmet(f *fact) []string {
	return slices.DeleteFunc(slices.Clone(f.needs), func(name string) bool {
		g := p.listed[name]
		return g != nil && g.state != v1alpha1.Removed && g.ready && (g.ours || g.state == v1alpha1.Unmanaged)
	})
}

// holders are the components that must be gone before one is removed, since they need
// it: all that are removed as well and, unless it is only replaced by another of its
// name, those that are Managed. Two that need each other, as nothing but a change of
// mind in between leaves behind, do not hold each other.
func (p *plan) holders(f *fact) (names []string) {
	for _, g := range p.needing[f.name] {
		holds := g.there && g.ours && g.state != v1alpha1.Unmanaged && p.rings[g] != p.rings[f]
		if holds && (g.state == v1alpha1.Removed || f.listed || p.listed[f.name] == nil) {
			names = append(names, g.name)
		}
	}
	return names
}

// inRings numbers the components so that those have one number of which each needs each
// other, be it by way of others (after R. Tarjan, "Depth-first search and linear graph
// algorithms", 1972).
func (p *plan) inRings() map[*fact]int {
	index, low, ring := map[*fact]int{}, map[*fact]int{}, map[*fact]int{}
	var stack []*fact
	var visit func(f *fact)
	visit = func(f *fact) {
		index[f] = len(index) + 1
		low[f] = index[f]
		stack = append(stack, f)
		for _, g := range p.needing[f.name] {
			if index[g] == 0 {
				visit(g)
				low[f] = min(low[f], low[g])
			} else if ring[g] == 0 {
				low[f] = min(low[f], index[g])
			}
		}
		if low[f] != index[f] {
			return
		}
		first := slices.Index(stack, f)
		for _, g := range stack[first:] {
			ring[g] = index[f]
		}
		stack = stack[:first]
	}
	for _, f := range p.facts {
		if index[f] == 0 {
			visit(f)
		}
	}
	return ring
}

// inOrder sorts components so that each comes after those that it needs, and else as
// they were. If that cannot be, it returns a cycle instead, in which each needs the
// next, and the last the first.
func (p *plan) inOrder() (sorted []*fact, cycle []string) {
	const begun, done = 1, 2
	state := map[*fact]int{}
	var path []string
	var visit func(f *fact) bool
	visit = func(f *fact) bool {
		switch state[f] {
		case done:
			return true
		case begun:
			cycle = slices.Clone(path[slices.Index(path, f.name):])
			return false
		}
		state[f], path = begun, append(path, f.name)
		for _, name := range f.needs {
			if g := p.listed[name]; f.listed && g != nil && !visit(g) {
				return false
			}
		}
		state[f], path = done, path[:len(path)-1]
		sorted = append(sorted, f)
		return true
	}
	for _, f := range p.facts {
		if !visit(f) {
			return nil, cycle
		}
	}
	return sorted, nil
}
