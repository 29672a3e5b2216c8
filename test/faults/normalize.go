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

var timestamp = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)

// collectOutcome reads the outcome of the run from the history. sqlState holds the objects that the run left on the
// PostgreSQL server, and the logins to the servers in Pods, by name.
func (r *run) collectOutcome(sqlState map[string]string) {
	o := &r.outcome
	o.final, o.created, o.deleted, o.passwords = map[string]any{}, map[string]int{}, map[string]int{}, map[string]int{}
	names := map[types.UID]string{}
	seen := map[string]bool{}
	for _, e := range r.history.eventsUntil(newestVersion) {
		name := r.fullName(e.object)
		switch e.kind {
		case watch.Added:
			o.created[name]++
			names[e.UID] = "an earlier " + name
		case watch.Deleted:
			o.deleted[name]++
			continue
		}
		if password := passwordOf(e.object); password != "" && !seen[string(e.UID)+password] {
			seen[string(e.UID)+password] = true
			o.passwords[name]++
		}
	}
	current := r.history.current()
	for _, object := range current {
		names[object.UID] = r.fullName(object)
	}
	for _, object := range current {
		o.final[names[object.UID]] = r.normalize(object, names)
	}
	for name, text := range sqlState {
		o.final[name] = replaceUIDs(text, names)
	}
	o.reachedPoint = r.injector.reached && (r.plan.secondDeath == 0 || r.injector.diedAgain)
	o.recoveryRequests = r.injector.recoveryRequests
}

// normalize returns an object without the values that differ between runs. UIDs become names, and times become a
// constant.
func (r *run) normalize(o *object, names map[types.UID]string) any {
	var object map[string]any
	if err := json.Unmarshal(o.raw, &object); err != nil {
		r.addViolation("decoding an object: %v", err)
		return nil
	}
	decodeEmbedded(object)
	object = mapStrings(object, func(text string) string {
		return timestamp.ReplaceAllString(replaceUIDs(r.stableName(text), names), "TIME")
	}).(map[string]any)
	if metadata, ok := object["metadata"].(map[string]any); ok {
		for _, field := range []string{"managedFields", "resourceVersion", "generation"} {
			delete(metadata, field)
		}
	}
	normalizeGenerations(object, float64(o.Generation))
	keepNewestRun(object)
	removeHint(object)
	return object
}

// removeHint removes the annotation that makes the kubelet update the settings in a Pod. A Pod that has replaced
// another Pod has the newest settings from its start, and therefore no such annotation.
func removeHint(object map[string]any) {
	metadata, _ := object["metadata"].(map[string]any)
	annotations, found := metadata["annotations"].(map[string]any)
	if delete(annotations, "windlass.dev/settings-revision"); found && len(annotations) == 0 {
		delete(metadata, "annotations")
	}
}

// keepNewestRun removes all runs except the newest from the components of a Platform, because an At that a fault
// deletes runs again.
func keepNewestRun(object map[string]any) {
	status, _ := object["status"].(map[string]any)
	components, _ := status["components"].([]any)
	for _, c := range components {
		if c, ok := c.(map[string]any); ok {
			if runs, ok := c["runs"].([]any); ok && len(runs) > 1 {
				c["runs"] = runs[:1]
			}
		}
	}
}

// decodeEmbedded decodes the values of a Secret and the JSON in annotations, such as the record, so that a comparison
// covers the fields in them.
func decodeEmbedded(object map[string]any) {
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
		var embedded map[string]any
		if json.Unmarshal([]byte(fmt.Sprint(value)), &embedded) == nil {
			annotations[key] = embedded
		}
	}
}

// mapStrings applies change to all strings in a value.
func mapStrings(value any, change func(string) string) any {
	switch value := value.(type) {
	case string:
		return change(value)
	case map[string]any:
		for key, field := range value {
			value[key] = mapStrings(field, change)
		}
	case []any:
		for i, item := range value {
			value[i] = mapStrings(item, change)
		}
	}
	return value
}

func replaceUIDs(text string, names map[types.UID]string) string {
	for uid, name := range names {
		text = strings.ReplaceAll(text, string(uid), "uid of "+name)
	}
	return text
}

// normalizeGenerations replaces observed generations with their difference from the generation of the object, and
// sorts conditions.
func normalizeGenerations(value any, generation float64) {
	switch value := value.(type) {
	case map[string]any:
		sortConditions(value["conditions"])
		for key, field := range value {
			if number, ok := field.(float64); ok && key == "observedGeneration" {
				value[key] = fmt.Sprintf("%+g", number-generation)
				continue
			}
			normalizeGenerations(field, generation)
		}
	case []any:
		for _, item := range value {
			normalizeGenerations(item, generation)
		}
	}
}

// sortConditions sorts conditions by type, because their order has no meaning.
func sortConditions(list any) {
	conditions, ok := list.([]any)
	if !ok {
		return
	}
	slices.SortFunc(conditions, func(a, b any) int {
		return cmp.Compare(fmt.Sprint(a.(map[string]any)["type"]), fmt.Sprint(b.(map[string]any)["type"]))
	})
}

// passwordOf returns the password in a Secret that has an owner, or "" for other objects.
func passwordOf(o *object) string {
	if resources[o.resource].Resource != "secrets" || len(o.OwnerReferences) == 0 {
		return ""
	}
	var secret struct{ Data map[string]string }
	_ = json.Unmarshal(o.raw, &secret) // without data there is no password
	return secret.Data["password"]
}
