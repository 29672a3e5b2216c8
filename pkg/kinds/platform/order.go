package platform

import "slices"

// inRings returns for each fact the number of its strongly connected component in the dependency graph (R.
// Tarjan, "Depth-first search and linear graph algorithms", 1972).
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
