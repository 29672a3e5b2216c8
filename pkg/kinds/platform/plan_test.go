package platform

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

type facts = []*component

// Observed states of a component.
var (
	noChild            = fact{}
	pendingChild       = fact{there: true, ours: true, bound: true}
	readyChild         = fact{there: true, ours: true, bound: true, ready: true}
	deletingChild      = fact{there: true, ours: true, bound: true, going: true}
	releasedChild      = fact{there: true, ours: true}
	foreignObject      = fact{there: true} // an object of a user that has the name of the child
	readyForeignObject = fact{there: true, ready: true}
)

// managedFact returns a Managed component that depends on the components needs. The spec and the status
// list it.
func managedFact(name string, observed fact, needs ...string) *component {
	observed.name = name
	observed.state = v1alpha1.Managed
	observed.needs = needs
	observed.listed = true
	observed.announced = true
	return &component{fact: observed}
}

// unmanagedFact returns an Unmanaged component.
func unmanagedFact(name string, observed fact, needs ...string) *component {
	f := managedFact(name, observed, needs...)
	f.state = v1alpha1.Unmanaged
	return f
}

// removedFact returns a Removed component.
func removedFact(name string, observed fact, needs ...string) *component {
	f := managedFact(name, observed, needs...)
	f.state = v1alpha1.Removed
	return f
}

// droppedFact returns a component that is no longer in the spec, or has another kind there.
func droppedFact(name string, observed fact, needs ...string) *component {
	f := removedFact(name, observed, needs...)
	f.listed = false
	return f
}

// unannounced returns a component that the status does not list.
func unannounced(f *component) *component {
	f.announced = false
	return f
}

// recorded returns f with needs as the dependencies that an annotation of its child records.
func recorded(f *component, needs ...string) *component {
	f.had = needs
	return f
}

// TestPlanStartsNothingWhileManyComponentsAreBeingDeleted has a spec whose components were renamed
// repeatedly, while something blocks the deletion of their children.
func TestPlanStartsNothingWhileManyComponentsAreBeingDeleted(t *testing.T) {
	for left, want := range map[int]verb{maxLeft: keep, maxLeft + 1: crowded} {
		web := managedFact("web", noChild)
		p := newPlan(append(facts{web}, slices.Repeat(facts{droppedFact("old", deletingChild)}, left)...))
		controllertest.Equal(t, "next", want, p.next(web).verb)
	}
}

// TestNext checks the next step of the first component of each list.
func TestNext(t *testing.T) {
	for name, c := range map[string]struct {
		facts facts
		want  step
	}{
		"a Managed component is created": {facts{managedFact("web", noChild)}, step{verb: keep}},
		"a component is listed in the status before it is created": {
			facts{unannounced(managedFact("web", noChild))}, step{verb: announce},
		},
		"a component waits for its dependency before the status lists it": {
			facts{unannounced(managedFact("web", noChild, "db")), managedFact("db", noChild)}, step{queue, []string{"db"}},
		},
		"an existing child is kept": {facts{managedFact("web", pendingChild)}, step{verb: keep}},
		"a child that is being deleted is kept, so that it is created again": {
			facts{managedFact("web", deletingChild)}, step{verb: keep},
		},
		"an object of a user is kept, so that the conflict is reported": {
			facts{managedFact("web", foreignObject)}, step{verb: keep},
		},
		"a released child is kept, so that it is adopted again": {facts{managedFact("web", releasedChild)}, step{verb: keep}},
		"a component is created when its dependency is Ready": {
			facts{managedFact("web", noChild, "db"), managedFact("db", readyChild)}, step{verb: keep},
		},
		"a component waits for dependencies that are not Ready": {
			facts{
				managedFact("web", noChild, "db", "cache", "mail"), managedFact("db", pendingChild),
				managedFact("cache", readyChild), managedFact("mail", noChild),
			},
			step{queue, []string{"db", "mail"}},
		},
		"a component waits for a Removed dependency although it is Ready": {
			facts{managedFact("web", noChild, "db"), removedFact("db", readyChild)}, step{queue, []string{"db"}},
		},
		"a component waits for a dependency whose name is taken": {
			facts{managedFact("web", noChild, "db"), managedFact("db", readyForeignObject)}, step{queue, []string{"db"}},
		},
		"a Ready Unmanaged dependency is sufficient": {
			facts{managedFact("web", noChild, "db"), unmanagedFact("db", readyChild)}, step{verb: keep},
		},
		"a component waits for an Unmanaged dependency that is not Ready": {
			facts{managedFact("web", noChild, "db"), unmanagedFact("db", pendingChild)}, step{queue, []string{"db"}},
		},
		"an existing child is kept although its dependency is missing": {
			facts{managedFact("web", pendingChild, "db"), managedFact("db", noChild)}, step{verb: keep},
		},
		"a component waits for the deletion of its previous child of another kind": {
			facts{managedFact("web", noChild), droppedFact("web", pendingChild)}, step{verb: succeed},
		},
		"a component does not wait for an object of a user with its name and another kind": {
			facts{managedFact("web", noChild), droppedFact("web", foreignObject)}, step{verb: keep},
		},
		"a Ready object of a user is sufficient as an Unmanaged dependency": {
			facts{managedFact("web", noChild, "db"), unmanagedFact("db", readyForeignObject)}, step{verb: keep},
		},
		"the child of an Unmanaged component is released": {
			facts{unmanagedFact("web", pendingChild)}, step{verb: release},
		},
		"a released child of an Unmanaged component is left": {
			facts{unmanagedFact("web", releasedChild)}, step{verb: leave},
		},
		"a child that is being deleted is not released": {
			facts{unmanagedFact("web", deletingChild)}, step{verb: leave},
		},
		"the child of a Removed component is removed": {facts{removedFact("web", pendingChild)}, step{verb: remove}},
		"a released child is reclaimed before it is removed": {
			facts{removedFact("web", releasedChild)}, step{verb: reclaim},
		},
		"a Removed component without a child is left": {facts{removedFact("web", noChild)}, step{verb: leave}},
		"an object of a user is left by a Removed component": {
			facts{removedFact("web", foreignObject)}, step{verb: leave},
		},
		"the deletion of a child is awaited": {
			facts{removedFact("web", deletingChild)}, step{verb: await},
		},
		"the child of a component that is no longer in the spec is removed": {
			facts{droppedFact("web", readyChild)}, step{verb: remove},
		},
		"a child stays until its dependents are gone": {
			facts{removedFact("db", readyChild), removedFact("web", readyChild, "db"), removedFact("job", deletingChild, "db")},
			step{hold, []string{"web", "job"}},
		},
		"a child does not stay for a Removed dependent that is gone": {
			facts{removedFact("db", readyChild), removedFact("web", noChild, "db")}, step{verb: remove},
		},
		"a child stays for a Managed dependent": {
			facts{removedFact("db", readyChild), managedFact("web", pendingChild, "db")}, step{hold, []string{"web"}},
		},
		"a child does not stay for a released dependent": {
			facts{removedFact("db", readyChild), unmanagedFact("web", releasedChild, "db")}, step{verb: remove},
		},
		"a child does not stay for an object of a user": {
			facts{removedFact("db", readyChild), removedFact("web", foreignObject, "db")}, step{verb: remove},
		},
		"a child that is no longer in the spec stays for a dependent that is no longer in the spec": {
			facts{droppedFact("db", readyChild), droppedFact("web", readyChild, "db")}, step{hold, []string{"web"}},
		},
		"a previous child of another kind does not stay for a Managed dependent": {
			facts{droppedFact("db", readyChild), managedFact("db", noChild), managedFact("web", pendingChild, "db")},
			step{verb: remove},
		},
		"a previous child of another kind stays for a Removed dependent": {
			facts{droppedFact("db", readyChild), managedFact("db", noChild), removedFact("web", pendingChild, "db")},
			step{hold, []string{"web"}},
		},
		"three components in a cycle do not hold each other": {
			facts{removedFact("a", pendingChild, "b"), removedFact("b", pendingChild, "c"), removedFact("c", pendingChild, "a")},
			step{verb: remove},
		},
		"a dependent outside the cycle is removed first": {
			facts{removedFact("a", pendingChild, "b"), removedFact("b", pendingChild, "a"), removedFact("c", pendingChild, "a")},
			step{hold, []string{"c"}},
		},
		"a child stays for a recorded dependent": {
			facts{
				droppedFact("db", pendingChild), recorded(removedFact("web", pendingChild), "db"),
			}, step{hold, []string{"web"}},
		},
		"a component waits for an unknown dependency": {
			facts{managedFact("web", noChild, "nothing")}, step{queue, []string{"nothing"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			controllertest.Equal(t, "next", c.want, newPlan(c.facts).next(c.facts[0]), cmp.AllowUnexported(step{}))
		})
	}
}

func TestPlanStartsNothingWithoutNamespace(t *testing.T) {
	p := newPlan(facts{
		managedFact("web", noChild), managedFact("db", pendingChild), removedFact("old", pendingChild),
		unmanagedFact("free", pendingChild),
	})
	p.homeless = true
	var got []verb
	for _, f := range p.components {
		got = append(got, p.next(f).verb)
	}
	controllertest.Equal(t, "next", []verb{blocked, keep, remove, release}, got)
}

func TestInOrder(t *testing.T) {
	for name, c := range map[string]struct {
		facts         facts
		sorted, cycle []string
	}{
		"components without dependencies keep their order": {
			facts{managedFact("b", noChild), managedFact("a", noChild), managedFact("c", noChild)}, []string{"b", "a", "c"}, nil,
		},
		"a diamond begins with its base": {
			facts{
				managedFact("a", noChild, "b", "c"), managedFact("b", noChild, "d"), managedFact("c", noChild, "d"),
				managedFact("d", noChild),
			}, []string{"d", "b", "c", "a"},
			nil,
		},
		"an unknown dependency is ignored": {
			facts{managedFact("a", noChild, "x"), managedFact("b", noChild)}, []string{"a", "b"}, nil,
		},
		"a component that depends on itself is a cycle": {facts{managedFact("a", noChild, "a")}, nil, []string{"a"}},
		"a cycle is reported from its first component": {
			facts{
				managedFact("x", noChild, "a"), managedFact("a", noChild, "b"), managedFact("b", noChild, "c"),
				managedFact("c", noChild, "a"),
			},
			nil, []string{"a", "b", "c"},
		},
		"components that are no longer in the spec are in no cycle": {
			facts{
				managedFact("a", noChild, "b"), managedFact("b", noChild), droppedFact("a", pendingChild, "b"),
				droppedFact("b", pendingChild, "a"),
			}, []string{"b", "a", "a", "b"},
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			sorted, cycle := newPlan(c.facts).inOrder()
			var names []string
			for _, f := range sorted {
				names = append(names, f.name)
			}
			controllertest.Equal(t, "order", c.sorted, names)
			controllertest.Equal(t, "cycle", c.cycle, cycle)
		})
	}
}

// FuzzPlanRemovesEveryComponent carries out the removal of random graphs, also with cycles. Every component is
// removed in the end, and none before a dependent, unless the two depend on each other.
func FuzzPlanRemovesEveryComponent(f *testing.F) {
	f.Add([]byte{0x12, 0x23, 0x31, 0x14})
	f.Fuzz(func(t *testing.T, edges []byte) {
		const n = 8
		all := make(facts, n)
		for i := range all {
			all[i] = &component{fact: fact{
				name: string(rune('a' + i)), listed: i%2 == 0, state: v1alpha1.Removed, there: true, ours: true, bound: true,
			}}
		}
		for _, e := range edges {
			from, to := all[e>>4%n], all[e&0xf%n]
			from.needs = append(from.needs, to.name)
		}
		var reaches [n][n]bool // also indirectly
		for i, f := range all {
			for j, g := range all {
				reaches[i][j] = slices.Contains(f.needs, g.name)
			}
		}
		for k := range n {
			for i := range n {
				for j := range n {
					reaches[i][j] = reaches[i][j] || reaches[i][k] && reaches[k][j]
				}
			}
		}
		p := newPlan(all)
		for range n {
			var removed facts
			for _, f := range all {
				if p.next(f).verb == remove {
					removed = append(removed, f)
				}
			}
			for _, f := range removed {
				for j, g := range all {
					if g.there && g != f && slices.Contains(g.needs, f.name) && !reaches[slices.Index(all, f)][j] {
						t.Fatalf("%s is removed before %s, which depends on it", f.name, g.name)
					}
				}
			}
			for _, f := range removed {
				f.there = false
			}
		}
		for _, f := range all {
			if f.there {
				t.Fatalf("%s is never removed", f.name)
			}
		}
	})
}
