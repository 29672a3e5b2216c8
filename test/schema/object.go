package schema

import (
	"regexp"
	"slices"
)

// Object returns the smallest object that has the given value in the field. The API server accepts the
// object if the value is valid.
func (f Field) Object(name string, value any) Node {
	return f.Of.named(name, filled(f.Of.Root, f.Path, value).(Node))
}

// Smallest returns the smallest valid object of a version.
func (v Version) Smallest(name string) Node { return v.named(name, smallest(v.Root).(Node)) }

// Status returns the smallest status that has the given value in the field.
func (f Field) Status(value any) Node {
	return Node{"status": filled(Children(f.Of.Root)["status"], f.Path[1:], value)}
}

func (v Version) named(name string, object Node) Node {
	object["apiVersion"], object["kind"] = v.Group+"/"+v.Name, v.Kind
	object["metadata"] = Node{"name": name}
	return object
}

// filled returns the smallest value of a schema that has the given value at a path. The schema accepts the result if
// the given value is valid.
func filled(schema Node, path []string, value any) any {
	if len(path) == 0 {
		return value
	}
	child := filled(Children(schema)[path[0]], path[1:], value)
	switch path[0] {
	case "[]":
		return []any{child}
	case "{}":
		return Node{"key": child}
	}
	object := required(schema)
	object[path[0]] = child
	return whole(schema, object)
}

// smallest returns a value that a schema accepts, without optional fields and items.
func smallest(schema Node) any {
	if values, ok := schema["enum"].([]any); ok {
		return values[0]
	}
	if IsIntOrString(schema) {
		return "1"
	}
	switch schema["type"] {
	case "string":
		return text(schema)
	case "integer":
		least, _ := Number(schema["minimum"])
		return max(least, 1)
	case "boolean":
		return true
	case "array":
		least, _ := Number(schema["minItems"])
		items := []any{}
		for range least {
			items = append(items, smallest(schema["items"].(Node)))
		}
		return items
	}
	return whole(schema, required(schema))
}

// required returns an object with only the fields that a schema requires.
func required(schema Node) Node {
	object, below := Node{}, Children(schema)
	names, _ := schema["required"].([]any)
	for _, name := range names {
		object[name.(string)] = smallest(below[name.(string)])
	}
	return object
}

// text returns a string that matches all patterns of a schema, or "" if no candidate matches.
func text(schema Node) string {
	patterns := Patterns(schema)
	for _, candidate := range []string{"a", "/", "2026-02-10T20:30:00Z"} {
		if !slices.ContainsFunc(patterns, func(pattern string) bool {
			return !regexp.MustCompile(pattern).MatchString(candidate)
		}) {
			return candidate
		}
	}
	return ""
}

// whole adds the fields that validation rules require to an object: an App to a component without a kind, a CPU request
// for the autoscaler, and a name to a volume with a claim.
func whole(schema, object Node) Node {
	below := Children(schema)
	named := slices.ContainsFunc([]string{"app", "database", "externalDatabase", "at"}, func(name string) bool {
		return object[name] != nil
	})
	if below["externalDatabase"] != nil && !named {
		object["app"] = smallest(below["app"])
	}
	if object["autoscaling"] != nil && below["resources"] != nil {
		object["resources"] = Node{"requests": Node{"cpu": "1"}}
	}
	if object["claim"] != nil && below["mountPath"] != nil {
		object["name"] = "data"
	}
	return object
}

// Number returns value, such as the maxLength of a schema, as an integer. ok is false if value is not a number.
func Number(value any) (n int, ok bool) {
	switch value := value.(type) {
	case float64:
		return int(value), true
	case int64:
		return int(value), true
	}
	return 0, false
}
