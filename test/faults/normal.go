package faults

import (
	"cmp"
	"encoding/base64"
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
		name := r.fullName(e.object)
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
		names[object.UID] = r.fullName(object)
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
	var object map[string]any
	if err := json.Unmarshal(o.raw, &object); err != nil {
		r.violate("an object cannot be compared: %v", err)
		return nil
	}
	unpack(object)
	object = everyString(object, func(text string) string {
		return times.ReplaceAllString(named(r.plain(text), names), "TIME")
	}).(map[string]any)
	if metadata, ok := object["metadata"].(map[string]any); ok {
		for _, field := range []string{"managedFields", "resourceVersion", "generation"} {
			delete(metadata, field)
		}
	}
	observed(object, float64(o.Generation))
	return object
}

// unpack has what is written inside of texts be as if it were fields: what a Secret says,
// and the record of what was written.
func unpack(object map[string]any) {
	if data, ok := object["data"].(map[string]any); ok && object["kind"] == "Secret" {
		for key, value := range data {
			if text, err := base64.StdEncoding.DecodeString(fmt.Sprint(value)); err == nil {
				data[key] = string(text)
			}
		}
	}
	metadata, _ := object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	for key, value := range annotations {
		var inside map[string]any
		if json.Unmarshal([]byte(fmt.Sprint(value)), &inside) == nil {
			annotations[key] = inside
		}
	}
}

// everyString is a value, and all that is in it, with its texts changed.
func everyString(value any, change func(string) string) any {
	switch value := value.(type) {
	case string:
		return change(value)
	case map[string]any:
		for key, field := range value {
			value[key] = everyString(field, change)
		}
	case []any:
		for i, item := range value {
			value[i] = everyString(item, change)
		}
	}
	return value
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
