package platform

import "slices"

// dependencies returns the names of the components that a component depends on, directly or through others. They
// include the name of the component itself if it is in a dependency cycle.
func (p *plan) dependencies(c *component) map[string]bool {
	found := map[string]bool{}
	var visit func(names []string)
	visit = func(names []string) {
		for _, name := range names {
			if !found[name] {
				found[name] = true
				visit(p.needed[name])
			}
		}
	}
	visit(c.edges())
	return found
}

// inOrder returns the components in topological order: in the order of the plan, but each after its dependencies. If
// there is a dependency cycle, inOrder returns the names in the cycle instead: each component depends on the next one,
// and the last on the first.
func (p *plan) inOrder() (sorted []*component, cycle []string) {
	const begun, done = 1, 2
	state := map[*component]int{}
	var path []string
	var visit func(c *component) bool
	visit = func(c *component) bool {
		switch state[c] {
		case done:
			return true
		case begun:
			cycle = slices.Clone(path[slices.Index(path, c.name):])
			return false
		}
		state[c], path = begun, append(path, c.name)
		for _, name := range c.needs {
			if g := p.listed[name]; c.listed && g != nil && !visit(g) {
				return false
			}
		}
		state[c], path = done, path[:len(path)-1]
		sorted = append(sorted, c)
		return true
	}
	for _, c := range p.components {
		if !visit(c) {
			return nil, cycle
		}
	}
	return sorted, nil
}
