package children

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// maxNamed is how many fields a warning about a child names.
const maxNamed = 3

// difference is a field of a child in which the observed value is not the desired value.
type difference struct {
	// Field is the path of the field, for example spec.template.spec.containers[0].image.
	Field             string
	Desired, Observed any
}

// differences returns the fields in which two JSON values differ. It compares list items by position, and lists of
// different lengths as a whole.
func differences(field string, desired, observed any) (found []difference) {
	switch want := desired.(type) {
	case map[string]any:
		is, ok := observed.(map[string]any)
		if !ok {
			break
		}
		names := slices.Collect(maps.Keys(want))
		for name := range is {
			if _, both := want[name]; !both {
				names = append(names, name)
			}
		}
		for _, name := range slices.Sorted(slices.Values(names)) {
			found = append(found, differences(member(field, name), want[name], is[name])...)
		}
		return found
	case []any:
		is, ok := observed.([]any)
		if !ok || len(is) != len(want) {
			break
		}
		for i := range want {
			found = append(found, differences(fmt.Sprintf("%s[%d]", field, i), want[i], is[i])...)
		}
		return found
	}
	if reflect.DeepEqual(desired, observed) {
		return nil
	}
	return []difference{{field, desired, observed}}
}

// member returns the path of a member of an object.
func member(field, name string) string {
	switch {
	case field == "":
		return name
	case strings.ContainsAny(name, "./"): // the key of a label or annotation
		return field + "[" + name + "]"
	default:
		return field + "." + name
	}
}

// fields returns the names of the fields that differ, without their values, which may be secret.
func (c *change) fields() string {
	names := make([]string, 0, maxNamed)
	for _, d := range c.differences[:min(maxNamed, len(c.differences))] {
		names = append(names, d.Field)
	}
	if more := len(c.differences) - len(names); more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names, ", "), more)
	}
	return strings.Join(names, ", ")
}
