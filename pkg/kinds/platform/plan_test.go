package platform

import (
	"slices"
	"strings"
	"testing"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

// parse parses facts, one in a line: name, management state, observed state and dependencies.
//
//	web Managed ready -> db, cache
//
// A child that exists is ours and bound, unless the line has "foreign" or "released".
func parse(t *testing.T, text string) *plan {
	t.Helper()
	var facts []*fact
	for line := range strings.Lines(strings.TrimSpace(text)) {
		known, needs, _ := strings.Cut(strings.TrimSpace(line), "->")
		words := strings.Fields(known)
		f := &fact{name: words[0], listed: true, announced: true, state: v1alpha1.ManagementState(words[1]), needs: strings.FieldsFunc(needs, func(r rune) bool { return r == ',' || r == ' ' })}
		if words[1] == "Dropped" {
			f.listed, f.state = false, v1alpha1.Removed
		}
		for i, word := range words[2:] {
			if word == "had" {
				f.had = words[2+i+1:]
				break
			}
			if word == "unlisted" { // in the status
				f.announced = false
				continue
			}
			if i == 0 {
				f.there, f.ours, f.bound = true, true, true
			}
			switch word {
			case "ready":
				f.ready = true
			case "going":
				f.going = true
			case "foreign":
				f.ours, f.bound = false, false
			case "released":
				f.bound = false
			case "there":
			default:
				t.Fatalf("%q is nothing that is known", word)
			}
		}
		facts = append(facts, f)
	}
	return newPlan(facts)
}

// TestNothingIsStartedWhileMuchIsLeft has a spec whose components were renamed again and again while
// something blocks the deletion of their children.
func TestNothingIsStartedWhileMuchIsLeft(t *testing.T) {
	for left, want := range map[int]verb{maxLeft: keep, maxLeft + 1: crowded} {
		p := parse(t, "web Managed\n"+strings.Repeat("old Dropped going\n", left))
		controllertest.Equal(t, "next", want, p.next(p.facts[0]).verb)
	}
}

// TestNext checks the next step of the first component of each list.
func TestNext(t *testing.T) {
	for name, c := range map[string]struct{ facts, want string }{
		"a component is started":                                          {"web Managed", "keep"},
		"but the status lists it first":                                   {"web Managed unlisted", "announce"},
		"what it needs comes before that":                                 {"web Managed unlisted -> db\ndb Managed", "queue db"},
		"one that is there is kept":                                       {"web Managed there", "keep"},
		"one that is being deleted is kept, so that it is made again":     {"web Managed going", "keep"},
		"one whose name is taken is kept, so that it is said":             {"web Managed foreign", "keep"},
		"one that was let go is taken back":                               {"web Managed released", "keep"},
		"it starts when what it needs is Ready":                           {"web Managed -> db\ndb Managed ready", "keep"},
		"it waits for what is not Ready":                                  {"web Managed -> db, cache, mail\ndb Managed there\ncache Managed ready\nmail Managed", "queue db mail"},
		"it waits for what is being deleted, Ready or not":                {"web Managed -> db\ndb Removed ready", "queue db"},
		"it waits for a name that is taken":                               {"web Managed -> db\ndb Managed ready foreign", "queue db"},
		"what is Unmanaged is good enough once it is Ready":               {"web Managed -> db\ndb Unmanaged ready", "keep"},
		"what is Unmanaged and not Ready is waited for":                   {"web Managed -> db\ndb Unmanaged there", "queue db"},
		"once it is there it is kept, whatever becomes of what it needs":  {"web Managed there -> db\ndb Managed", "keep"},
		"it waits for the one of another kind that it replaces":           {"web Managed\nweb Dropped there", "succeed"},
		"that is so although what it needs is Ready":                      {"web Managed -> db\nweb Dropped going\ndb Managed ready", "succeed"},
		"somebody else's of that name and another kind is not waited for": {"web Managed\nweb Dropped foreign", "keep"},
		"what is Unmanaged and somebody else's is good enough too":        {"web Managed -> db\ndb Unmanaged ready foreign", "keep"},
		"what is Unmanaged is let go":                                     {"web Unmanaged there", "release"},
		"what was let go is left":                                         {"web Unmanaged released", "leave"},
		"what is somebody else's is left":                                 {"web Unmanaged foreign", "leave"},
		"what is Unmanaged and not there is left":                         {"web Unmanaged", "leave"},
		"what is being deleted is not let go":                             {"web Unmanaged going", "leave"},
		"what is Removed is removed":                                      {"web Removed there", "remove"},
		"what was let go is taken back before it is removed":              {"web Removed released", "reclaim"},
		"what is gone is left":                                            {"web Removed", "leave"},
		"what is Removed and somebody else's is left":                     {"web Removed foreign", "leave"},
		"what is being deleted is awaited":                                {"web Removed going", "await"},
		"what is off the list is removed":                                 {"web Dropped ready", "remove"},
		"it stays until what needs it is gone":                            {"db Removed ready\nweb Removed ready -> db\njob Removed going -> db", "hold web job"},
		"it does not stay for what is gone":                               {"db Removed ready\nweb Removed -> db", "remove"},
		"it stays for what is Managed":                                    {"db Removed ready\nweb Managed there -> db", "hold web"},
		"it does not stay for what is Managed and has not started":        {"db Removed ready\nweb Managed -> db", "remove"},
		"it does not stay for what was let go":                            {"db Removed ready\nweb Unmanaged released -> db", "remove"},
		"it does not stay for somebody else's":                            {"db Removed ready\nweb Removed foreign -> db", "remove"},
		"off the list it stays for what is off the list":                  {"db Dropped ready\nweb Dropped ready -> db", "hold web"},
		"replaced by another kind it does not stay for what is Managed":   {"db Dropped ready\ndb Managed\nweb Managed there -> db", "remove"},
		"replaced by another kind it stays for what is Removed":           {"db Dropped ready\ndb Managed\nweb Removed there -> db", "hold web"},
		"two that need each other do not hold each other":                 {"db Dropped ready -> web\nweb Dropped ready -> db", "remove"},
		"nor do three": {"a Removed there -> b\nb Removed there -> c\nc Removed there -> a", "remove"},
		"but what needs them, and is not of the cycle, is waited for":       {"a Removed there -> b\nb Removed there -> a\nc Removed there -> a", "hold c"},
		"it stays for what needed it when it was last written":              {"db Dropped there\nweb Removed there had db", "hold web"},
		"what is needed by way of others stays until those are gone":        {"a Removed there\nb Removed there -> a\nc Removed there -> b", "hold b"},
		"one that is needed by way of one that is gone does not stay":       {"a Removed there\nb Removed -> a\nc Removed there -> b", "remove"},
		"a diamond is removed from its tip":                                 {"tip Removed there -> left, right\nleft Removed there -> base\nright Removed there -> base\nbase Removed there", "remove"},
		"and its base stays until both sides are gone":                      {"base Removed there\ntip Removed there -> left, right\nleft Removed there -> base\nright Removed there -> base", "hold left right"},
		"a component that depends on a name that there is not waits for it": {"web Managed -> nothing", "queue nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			p := parse(t, c.facts)
			next := p.next(p.facts[0])
			controllertest.Equal(t, "next", c.want, strings.Join(append([]string{string(next.verb)}, next.others...), " "))
		})
	}
}

func TestWithoutANamespaceNothingIsStarted(t *testing.T) {
	p := parse(t, "web Managed\ndb Managed there\nold Removed there\nfree Unmanaged there")
	p.homeless = true
	var got []string
	for _, f := range p.facts {
		got = append(got, string(p.next(f).verb))
	}
	controllertest.Equal(t, "next", []string{"blocked", "keep", "remove", "release"}, got)
}

func TestInOrder(t *testing.T) {
	for name, c := range map[string]struct{ facts, sorted, cycle string }{
		"nothing":                            {"a Managed", "a", ""},
		"components without needs stay":      {"b Managed\na Managed\nc Managed", "b a c", ""},
		"a chain":                            {"a Managed -> b\nb Managed -> c\nc Managed", "c b a", ""},
		"a diamond":                          {"a Managed -> b, c\nb Managed -> d\nc Managed -> d\nd Managed", "d b c a", ""},
		"a name that there is not is passed": {"a Managed -> x\nb Managed", "a b", ""},
		"itself":                             {"a Managed -> a", "", "a"},
		"a cycle":                            {"x Managed -> a\na Managed -> b\nb Managed -> c\nc Managed -> a", "", "a b c"},
		"those off the list are in no cycle": {"a Managed -> b\nb Managed\na Dropped there -> b\nb Dropped there -> a", "b a a b", ""},
	} {
		t.Run(name, func(t *testing.T) {
			sorted, cycle := parse(t, c.facts).inOrder()
			var names []string
			for _, f := range sorted {
				names = append(names, f.name)
			}
			controllertest.Equal(t, "order", c.sorted, strings.Join(names, " "))
			controllertest.Equal(t, "cycle", c.cycle, strings.Join(cycle, " "))
		})
	}
}

// FuzzEveryPlanEnds carries out the removal of random graphs, also with cycles. Every component is
// removed in the end, and none before a dependent, unless the two depend on each other.
func FuzzEveryPlanEnds(f *testing.F) {
	f.Add([]byte{0x12, 0x23, 0x31, 0x14})
	f.Fuzz(func(t *testing.T, edges []byte) {
		const n = 8
		facts := make([]*fact, n)
		for i := range facts {
			facts[i] = &fact{name: string(rune('a' + i)), listed: i%2 == 0, state: v1alpha1.Removed, there: true, ours: true, bound: true}
		}
		for _, e := range edges {
			from, to := facts[e>>4%n], facts[e&0xf%n]
			from.needs = append(from.needs, to.name)
		}
		var reaches [n][n]bool // also indirectly
		for i, f := range facts {
			for j, g := range facts {
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
		p := newPlan(facts)
		for range n {
			var removed []*fact
			for _, f := range facts {
				if p.next(f).verb == remove {
					removed = append(removed, f)
				}
			}
			for _, f := range removed {
				for j, g := range facts {
					if g.there && g != f && slices.Contains(g.needs, f.name) && !reaches[slices.Index(facts, f)][j] {
						t.Fatalf("%s is removed before %s, which needs it", f.name, g.name)
					}
				}
			}
			for _, f := range removed {
				f.there = false
			}
		}
		for _, f := range facts {
			if f.there {
				t.Fatalf("%s is never removed", f.name)
			}
		}
	})
}
