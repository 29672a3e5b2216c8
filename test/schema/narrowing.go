package schema

import (
	"fmt"
	"slices"
	"strings"
)

// Narrowing is a change of a schema after which the API server rejects objects that it accepted before, drops a field,
// or sets another default.
type Narrowing struct {
	Field string // for example App.v1alpha1: spec.image
	// Keyword is the keyword of the schema that has changed, or "removed".
	Keyword string
}

func (n Narrowing) String() string { return n.Field + ": " + n.Keyword }

// Keywords whose changes narrow a schema. A lower upper limit, a higher lower limit and a new limit accept fewer
// values. A freedom that is no longer true also accepts fewer values.
var (
	upperLimits = []string{"maxLength", "maxItems", "maxProperties", "maximum"}
	lowerLimits = []string{"minLength", "minItems", "minProperties", "minimum"}
	freedoms    = []string{"nullable", "x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields"}
)

// Narrowings returns the changes from older to newer that need a new API version, sorted. It ignores validation rules
// (x-kubernetes-validations).
func Narrowings(older, newer []Version) (found []Narrowing) {
	for _, before := range older {
		at := slices.IndexFunc(newer, func(v Version) bool {
			return v.Group == before.Group && v.Kind == before.Kind && v.Name == before.Name
		})
		if at < 0 {
			found = append(found, Narrowing{before.Kind + "." + before.Name, "removed"})
			continue
		}
		if before.Namespaced != newer[at].Namespaced {
			found = append(found, Narrowing{before.Kind + "." + before.Name, "scope"})
		}
		after := map[string]Field{}
		for _, part := range []string{"spec", "status"} {
			for _, f := range newer[at].Fields(part) {
				after[f.String()] = f
			}
		}
		for _, part := range []string{"spec", "status"} {
			for _, f := range before.Fields(part) {
				found = append(found, f.narrowings(after[f.String()])...)
			}
		}
	}
	slices.SortFunc(found, func(a, b Narrowing) int { return strings.Compare(a.String(), b.String()) })
	return found
}

// narrowings compares a field with the field of the same path in the newer version.
func (f Field) narrowings(newer Field) (found []Narrowing) {
	note := func(keyword string) { found = append(found, Narrowing{f.String(), keyword}) }
	if newer.Schema == nil {
		note("removed")
		return found
	}
	for _, keyword := range []string{"type", "default", "x-kubernetes-list-type", "x-kubernetes-map-type"} {
		if fmt.Sprint(f.Schema[keyword]) != fmt.Sprint(newer.Schema[keyword]) {
			note(keyword)
		}
	}
	for _, keyword := range []string{"pattern", "format"} {
		if is := newer.Schema[keyword]; is != nil && is != f.Schema[keyword] {
			note(keyword)
		}
	}
	for _, keyword := range upperLimits {
		if was, is := number(f.Schema[keyword]), number(newer.Schema[keyword]); is != nil && (was == nil || *is < *was) {
			note(keyword)
		}
	}
	for _, keyword := range lowerLimits {
		if was, is := number(f.Schema[keyword]), number(newer.Schema[keyword]); is != nil && (was == nil || *is > *was) {
			note(keyword)
		}
	}
	for _, keyword := range freedoms {
		if f.Schema[keyword] == true && newer.Schema[keyword] != true {
			note(keyword)
		}
	}
	if is := list(newer.Schema["enum"]); is != nil && !within(list(f.Schema["enum"]), is) || is != nil &&
		f.Schema["enum"] == nil {
		note("enum")
	}
	if !within(list(newer.Schema["required"]), list(f.Schema["required"])) {
		note("required")
	}
	return found
}

// within reports whether every item is in another list.
func within(items, others []any) bool {
	return !slices.ContainsFunc(items, func(item any) bool { return !slices.Contains(others, item) })
}

func list(value any) []any {
	items, _ := value.([]any)
	return items
}

func number(value any) *float64 {
	switch n := value.(type) {
	case float64:
		return &n
	case int64:
		f := float64(n)
		return &f
	}
	return nil
}
