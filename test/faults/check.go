package faults

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// leavesOnly returns a check that only the kept objects and the objects of the user exist at the end.
func leavesOnly(kept ...string) func(outcome) []string {
	return func(o outcome) (problems []string) {
		for _, name := range kept {
			if o.final[name] == nil {
				problems = append(problems, name+" was deleted")
			}
		}
		for _, name := range slices.Sorted(maps.Keys(o.final)) {
			if !slices.Contains(kept, name) && !isUserObject(name) {
				problems = append(problems, name+" was not deleted")
			}
		}
		return problems
	}
}

// leavesOrphans returns a check that no objects of a resource exist at the end, and that all given children exist.
func leavesOrphans(resource string, children ...string) func(outcome) []string {
	return func(o outcome) (problems []string) {
		for _, name := range children {
			if o.final[name] == nil {
				problems = append(problems, name+" was deleted too")
			}
		}
		for name := range o.final {
			if strings.HasPrefix(name, resource+"/") {
				problems = append(problems, name+" was not deleted")
			}
		}
		return problems
	}
}

// isUserObject reports whether the user of a scenario created the object with this full name.
func isUserObject(name string) bool {
	resource, object, _ := strings.Cut(name, "/")
	return resource == "namespaces" || slices.Contains(foreignNames, object) ||
		slices.Contains([]string{
			"secrets/payment", "secrets/shop-credentials", "configmaps/settings", "secrets/server", "secrets/other",
		}, name)
}

// isStalled returns a check that an object has the condition Stalled.
func isStalled(name string) func(outcome) []string {
	return func(o outcome) []string {
		if text := fmt.Sprint(o.final[name]); !strings.Contains(text, "type:Stalled") {
			return []string{name + " is not Stalled: " + text}
		}
		return nil
	}
}

// isCreated returns a check that an object was created the given number of times.
func isCreated(name string, times int) func(outcome) []string {
	return func(o outcome) []string {
		if n := o.created[name]; n != times {
			return []string{fmt.Sprintf("%s was created %d times, want %d", name, n, times)}
		}
		return nil
	}
}
