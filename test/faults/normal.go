package faults

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

var times = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)

// finish reads from the history what the run has come to. outside is what there is
// elsewhere.
func (r *run) finish(outside map[string]string) {
	o := &r.outcome
	o.final, o.created, o.deleted, o.passwords = map[string]any{}, map[string]int{}, map[string]int{}, map[string]int{}
	names := map[types.UID]string{}
	known := map[string]bool{}
	for _, e := range r.history.all(newestVersion) {
		name := resources[e.resource].Resource + "/" + r.plain(e.Name)
		switch e.kind {
		case watch.Added:
			o.created[name]++
			names[e.UID] = "an earlier " + name
		case watch.Deleted:
			o.deleted[name]++
			continue
		}
		if password := passwordIn(e.object); password != "" && !known[string(e.UID)+password] {
			known[string(e.UID)+password] = true
			o.passwords[name]++
		}
	}
	current := r.history.current()
	for _, object := range current {
		names[object.UID] = resources[object.resource].Resource + "/" + r.plain(object.Name)
	}
	for _, object := range current {
		o.final[names[object.UID]] = r.normal(object, names)
	}
	for name, text := range outside {
		o.final[name] = named(text, names)
	}
	o.fired, o.recovery = r.injector.fired && (r.plan.again == 0 || r.injector.again), r.injector.recovery
}

// normal is an object without what is another in each run: UIDs become the names of
// what they are of, generations whether they are observed.
func (r *run) normal(o *object, names map[types.UID]string) any {
	text := named(r.plain(string(o.raw)), names)
	text = times.ReplaceAllString(text, "TIME")
	var object map[string]any
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		r.violate("an object cannot be compared: %v", err)
		return nil
	}
	if metadata, ok := object["metadata"].(map[string]any); ok {
		for _, field := range []string{"managedFields", "resourceVersion", "generation"} {
			delete(metadata, field)
		}
	}
	observed(object, float64(o.Generation))
	return object
}

func named(text string, names map[types.UID]string) string {
	for uid, name := range names {
		text = strings.ReplaceAll(text, string(uid), "uid of "+name)
	}
	return text
}

// observed replaces generations that were observed, and sorts conditions.
func observed(value any, generation float64) {
	switch value := value.(type) {
	case map[string]any:
		sortConditions(value["conditions"])
		for key, field := range value {
			if number, ok := field.(float64); ok && key == "observedGeneration" {
				value[key] = fmt.Sprintf("%+g", number-generation)
				continue
			}
			observed(field, generation)
		}
	case []any:
		for _, item := range value {
			observed(item, generation)
		}
	}
}

// sortConditions sorts them by type: their order says nothing.
func sortConditions(list any) {
	conditions, ok := list.([]any)
	if !ok {
		return
	}
	slices.SortFunc(conditions, func(a, b any) int {
		return cmp.Compare(fmt.Sprint(a.(map[string]any)["type"]), fmt.Sprint(b.(map[string]any)["type"]))
	})
}

// passwordIn is the password in a Secret of the operator's.
func passwordIn(o *object) string {
	if resources[o.resource].Resource != "secrets" || len(o.OwnerReferences) == 0 {
		return ""
	}
	var secret struct{ Data map[string]string }
	_ = json.Unmarshal(o.raw, &secret) // then there is none
	return secret.Data["password"]
}
