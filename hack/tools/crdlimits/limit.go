package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// node is a schema, or another object in JSON.
type node = map[string]any

// Limits of fields without a marker. These are fields of types in k8s.io/api, because the types in pkg/apis have
// markers.
const (
	maxLength     = 1024 // characters of a string
	maxItems      = 64   // items of a list
	maxProperties = 64   // keys of a map
)

// longer maps the ends of paths to the maximum length of strings that may be longer than maxLength. A marker cannot
// limit these strings: one string is a value of a map, and the other string is in a type of k8s.io/api.
var longer = map[string]int{
	".config{}":    512 << 10, // a ConfigMap may have 1 MiB
	".env[].value": 128 << 10, // the limit of Linux (MAX_ARG_STRLEN)
}

// rules maps the ends of paths to rules for fields of the types of k8s.io/api. The API server would reject a Pod with
// values that a rule rejects. A rule is at the field itself, so that it does not affect objects that already have the
// values.
var rules = map[string]validation{
	".resources": {
		"!has(self.requests) || !has(self.limits) || self.requests.all(name, !(name in self.limits) || " +
			"!isQuantity(string(self.requests[name])) || !isQuantity(string(self.limits[name])) || " +
			"quantity(string(self.requests[name])).compareTo(quantity(string(self.limits[name]))) <= 0)",
		"a request must not be greater than the limit of the same resource",
	},
	".resources.claims": {
		"self.size() == 0", "resources.claims cannot be used, since the Pod has no resourceClaims",
	},
	".env[].valueFrom.fileKeyRef": {
		"false", "fileKeyRef cannot be used, since the Pod has no volume with environment files",
	},
}

type validation struct{ rule, message string }

// generated is the pattern that controller-gen generates for a resource.Quantity. It matches "1e5.5", which
// resource.ParseQuantity rejects, and "1e-100000000", for which resource.ParseQuantity takes a minute.
const generated = `^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))` +
	`(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$`

// quantity replaces the generated pattern. It matches only texts that resource.ParseQuantity can parse quickly.
const (
	quantity          = `^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?$`
	maxQuantityLength = 64
)

// maxIntOrStringLength limits the name of a port, and a percentage.
const maxIntOrStringLength = 63

// dateTime matches times of RFC 3339 that Go can parse. It matches no leap seconds, which Go cannot parse.
const (
	dateTime = `^([0-9]{4}-` +
		`((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))|` +
		`([0-9]{2}(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)-02-29)` +
		`T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`
	maxDateTimeLength = 40
)

// limit sets limits in a schema and in all schemas below it. In path, as in the keys of longer and rules, "[]" stands
// for the items of a list and "{}" for the values of a map.
func limit(schema node, path string) error {
	for suffix, v := range rules {
		if strings.HasSuffix(path, suffix) {
			others, _ := schema["x-kubernetes-validations"].([]any)
			schema["x-kubernetes-validations"] = append(others, node{"rule": v.rule, "message": v.message})
		}
	}
	if schema["x-kubernetes-int-or-string"] == true {
		return limitIntOrString(schema, path)
	}
	switch schema["type"] {
	case "string":
		return limitString(schema, path)
	case "array":
		setDefault(schema, "maxItems", maxItems)
		return limitChild(schema, "items", path+"[]")
	case "object":
		return limitObject(schema, path)
	case "boolean":
		return nil
	case "integer":
		if schema["format"] != "int32" && schema["format"] != "int64" {
			return fmt.Errorf("%s is an integer without a format, so its value has no limit", path)
		}
		return nil
	}
	return fmt.Errorf("%s has type %v, which cannot be limited", path, schema["type"])
}

func limitObject(schema node, path string) error {
	if strings.HasSuffix(path, ".podTemplate.spec") {
		return nil // the operator checks it: its schema alone would exceed the size that `kubectl apply` can store
	}
	if schema["x-kubernetes-preserve-unknown-fields"] == true {
		return fmt.Errorf("%s preserves unknown fields, which cannot be limited", path)
	}
	if _, isMap := schema["additionalProperties"]; isMap {
		setDefault(schema, "maxProperties", maxProperties)
		return limitChild(schema, "additionalProperties", path+"{}")
	}
	fields, _ := schema["properties"].(node)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if err := limitChild(fields, name, path+"."+name); err != nil {
			return err
		}
	}
	return nil
}

func limitChild(parent node, name, path string) error {
	child, ok := parent[name].(node)
	if !ok {
		return fmt.Errorf("%s has no schema", path)
	}
	return limit(child, path)
}

// limitIntOrString limits a quantity or, without a pattern, the number or name of a port, or a number or percentage of
// Pods.
func limitIntOrString(schema node, path string) error {
	switch schema["pattern"] {
	case generated:
		schema["pattern"], schema["maxLength"] = quantity, maxQuantityLength
	case nil:
		schema["minimum"], schema["maximum"], schema["maxLength"] = 0, math.MaxInt32, maxIntOrStringLength
	default:
		return fmt.Errorf("%s is an int-or-string with an unknown pattern", path)
	}
	return nil
}

func limitString(schema node, path string) error {
	if format, has := schema["format"]; has {
		if format != "date-time" {
			return fmt.Errorf("%s is a string with the format %v; use a pattern instead", path, format)
		}
		limitTime(schema)
	}
	if _, enum := schema["enum"]; enum {
		return nil
	}
	most := maxLength
	for suffix, length := range longer {
		if strings.HasSuffix(path, suffix) {
			most = length
		}
	}
	setDefault(schema, "maxLength", most)
	return nil
}

// limitTime replaces the format of a string with a pattern. The API server accepts any list as the value of a string
// that has a format (k8s.io/kube-openapi/pkg/validation/validate/type.go), and does not validate the list. For the
// format date-time, it accepts more strings than Go does, such as a string with a lower-case "t".
func limitTime(schema node) {
	delete(schema, "format")
	setDefault(schema, "maxLength", maxDateTimeLength)
	if _, has := schema["pattern"]; has {
		schema["allOf"] = []any{node{"pattern": dateTime}}
		return
	}
	schema["pattern"] = dateTime
}

func setDefault(schema node, name string, value int) {
	if _, has := schema[name]; !has {
		schema[name] = value
	}
}
