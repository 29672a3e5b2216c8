package faults

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// leaves is the check of a scenario at whose end there is nothing of the operator's but
// these objects.
func leaves(kept ...string) func(outcome) []string {
	return func(o outcome) (problems []string) {
		for _, name := range kept {
			if o.final[name] == nil {
				problems = append(problems, name+" is gone")
			}
		}
		for _, name := range slices.Sorted(maps.Keys(o.final)) {
			if !slices.Contains(kept, name) && !isUsers(name) {
				problems = append(problems, name+" is left")
			}
		}
		return problems
	}
}

// orphans is the check of a scenario that deletes an object of a type without its
// children, such as these.
func orphans(resource string, children ...string) func(outcome) []string {
	return func(o outcome) (problems []string) {
		for _, name := range children {
			if o.final[name] == nil {
				problems = append(problems, name+" has gone too")
			}
		}
		for name := range o.final {
			if strings.HasPrefix(name, resource+"/") {
				problems = append(problems, name+" is still there")
			}
		}
		return problems
	}
}

// isUsers tells whether an object is made by the user of a scenario.
func isUsers(name string) bool {
	kind, object, _ := strings.Cut(name, "/")
	return kind == "namespaces" || slices.Contains(foreignNames, object) ||
		slices.Contains([]string{"secrets/payment", "secrets/shop-credentials", "configmaps/settings", "secrets/server", "secrets/other"}, name)
}

// isRefused is the check of a scenario in which what an object asks for is another's.
func isRefused(name string) func(outcome) []string {
	return func(o outcome) []string {
		if text := fmt.Sprint(o.final[name]); !strings.Contains(text, "type:Stalled") {
			return []string{name + " is not refused: " + text}
		}
		return nil
	}
}

// isMade is the check of a scenario in which an object is made so many times.
func isMade(name string, times int) func(outcome) []string {
	return func(o outcome) []string {
		if n := o.created[name]; n != times {
			return []string{fmt.Sprintf("%s was made %d times, not %d", name, n, times)}
		}
		return nil
	}
}
