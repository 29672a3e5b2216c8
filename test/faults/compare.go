package faults

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
)

// reference is what a scenario comes to without a fault.
type reference struct {
	outcome
	// masked are the fields that differ between two runs without a fault, such as
	// passwords and addresses.
	masked map[string]bool
}

// newReference makes a reference of two runs, which it is an error to differ in more than
// single values.
func newReference(a, b outcome) (reference, []string) {
	ref := reference{a, map[string]bool{}}
	var problems []string
	problems = append(problems, a.violations...)
	problems = append(problems, b.violations...)
	ref.record.requests, a.record.requests, b.record.requests = withoutChance(a.record.requests, b.record.requests)
	ref.record.untilLast = min(ref.record.untilLast, len(ref.record.requests))
	if differs := a.record.differs(b.record); differs != "" {
		problems = append(problems, "two runs without a fault differ in "+differs)
	}
	for name := range union(a.final, b.final) {
		mask(ref.masked, name, a.final[name], b.final[name])
	}
	for path := range ref.masked {
		if !mayDiffer.MatchString(path) {
			problems = append(problems, "two runs without a fault differ in "+path)
		}
	}
	ref.final = ref.unmasked(a.final)
	return ref, append(problems, ref.compare(b, plan{})...)
}

// withoutChance are the requests of two runs: those that happened in both, and those of
// each without what only looks. When periodic checks come is left to chance.
func withoutChance(a, b []string) (both, withoutA, withoutB []string) {
	looks := func(id string) bool { return strings.HasPrefix(id, "sql-") || strings.HasPrefix(id, "get-") }
	both = slices.DeleteFunc(slices.Clone(a), func(id string) bool { return !slices.Contains(b, id) })
	return both, slices.DeleteFunc(slices.Clone(a), looks), slices.DeleteFunc(slices.Clone(b), looks)
}

// mask adds the paths of the leaves that differ.
func mask(masked map[string]bool, path string, a, b any) {
	switch a := a.(type) {
	case map[string]any:
		if b, ok := b.(map[string]any); ok {
			for key := range union(a, b) {
				mask(masked, path+"."+key, a[key], b[key])
			}
		}
	case []any:
		if b, ok := b.([]any); ok && len(a) == len(b) {
			for i := range a {
				mask(masked, fmt.Sprintf("%s[%d]", path, i), a[i], b[i])
			}
		}
	default:
		if a != nil && b != nil && !reflect.DeepEqual(a, b) {
			masked[path] = true
		}
	}
}

func (ref reference) unmasked(final map[string]any) map[string]any {
	shown := map[string]any{}
	for name, object := range final {
		if !ref.masked[name] {
			shown[name] = ref.hide(name, object)
		}
	}
	return shown
}

func (ref reference) hide(path string, value any) any {
	if ref.masked[path] {
		return "masked"
	}
	switch value := value.(type) {
	case map[string]any:
		shown := map[string]any{}
		for key, field := range value {
			shown[key] = ref.hide(path+"."+key, field)
		}
		return shown
	case []any:
		shown := make([]any, len(value))
		for i, item := range value {
			shown[i] = ref.hide(fmt.Sprintf("%s[%d]", path, i), item)
		}
		return shown
	}
	return value
}

// maxPasses is how many passes of an object may do something before all is at rest, after
// a fault or after something that somebody else did; or one more than without a fault,
// if that is more. A fault can delay what belongs to a turn until the next one has begun, which
// then may take as many passes as both.
const maxPasses = 3

// compare tells what is not as it must be after a run.
func (ref reference) compare(o outcome, p plan) []string {
	problems := slices.Clone(o.violations)
	ref.masked = maps.Clone(ref.masked)
	if object, ok := ref.exempt(p); ok {
		ref.masked[object] = true
	}
	wanted, got := ref.unmasked(ref.final), ref.unmasked(o.final)
	if diff := cmp.Diff(wanted, got); diff != "" {
		problems = append(problems, "what is there in the end differs (-reference +this):\n"+diff)
	}
	slack := ref.slack(p)
	problems = append(problems, counted("made", ref.created, o.created, slack)...)
	problems = append(problems, counted("deleted", ref.deleted, o.deleted, slack)...)
	problems = append(problems, counted("given a password", ref.passwords, o.passwords, slack)...)
	if o.atRest > ref.atRest*restSlack+restAllowance {
		problems = append(problems, fmt.Sprintf("at rest it sends %.0f requests an hour, in the reference %.0f", o.atRest, ref.atRest))
	}
	return append(problems, ref.slow(o)...)
}

// How many more requests than in the reference an hour at rest may have: some rests are
// short, and begin anywhere between two looks.
const restSlack, restAllowance = 1.5, 6

// counted compares how often something was done to objects.
func counted(what string, wanted, got map[string]int, slack func(name string) (less, more int)) (problems []string) {
	for name := range union(wanted, got) {
		less, more := slack(name)
		if got[name] < wanted[name]-less || got[name] > wanted[name]+more {
			problems = append(problems, fmt.Sprintf("%s was %s %d times, in the reference %d", name, what, got[name], wanted[name]))
		}
	}
	slices.Sort(problems)
	return problems
}

// slow tells of objects that took more passes than they may.
func (ref reference) slow(o outcome) (problems []string) {
	usual, most := ref.busy(false), map[string]int{}
	for at, n := range usual {
		most[at.object] = max(most[at.object], n)
	}
	for at, n := range o.busy(true) {
		delayed := usual[effort{at.object, at.turn - 1}]
		if n > max(maxPasses, most[at.object]+1, delayed+usual[at]+1) {
			problems = append(problems, fmt.Sprintf("%s took %d passes in turn %d", at.object, n, at.turn))
		}
	}
	slices.Sort(problems)
	return problems
}

// effort is what an object takes until somebody else does something again.
type effort struct {
	object string
	turn   int
}

// busy counts the passes that did something or failed, or of these the ones after a fault.
func (o outcome) busy(after bool) map[effort]int {
	counts := map[effort]int{}
	for _, pass := range o.passes {
		if (pass.after || !after) && (o.writers[pass.id] > 0 || pass.failed()) {
			counts[effort{pass.object, pass.turn}]++
		}
	}
	return counts
}

func union[V any](a, b map[string]V) map[string]bool {
	all := map[string]bool{}
	for key := range a {
		all[key] = true
	}
	for key := range b {
		all[key] = true
	}
	return all
}
