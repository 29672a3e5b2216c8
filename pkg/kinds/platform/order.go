package platform

import "slices"

// dependencies returns the names of the components that a component depends on, directly or through others. They
// include the name of the component itself if it is in a dependency cycle.
func (p *plan) dependencies(f *fact) map[string]bool {
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
	visit(f.edges())
	return found
}

// inOrder returns the components in topological order: it visits them in the order of the plan, each after
// its dependencies. If there is a dependency cycle, it returns the names in the cycle instead: each
// component depends on the next one, and the last on the first.
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
