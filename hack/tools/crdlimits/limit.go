package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// node is a schema, or another object in JSON.
type node = map[string]any

// What holds where no marker says otherwise. The markers on the types of pkg/apis bound their own
// fields; what is left are the types of k8s.io/api.
const (
	maxLength     = 1024 // characters of a string
	maxItems      = 64   // of a list
	maxProperties = 64   // of a map
)

// longer are strings that may have more characters than maxLength and take no marker: the value
// of a map, and a field of a type of k8s.io/api.
var longer = map[string]int{
	".config{}":    512 << 10, // a ConfigMap may have 1 MiB
	".env[].value": 128 << 10, // what Linux takes (MAX_ARG_STRLEN)
}

// useless are the fields of types of k8s.io/api with which no child can be made, since the API
// server refuses the Pod: with the rule and the message by which they are refused right away.
// The rule stands at the field itself, so that it does not concern objects that have the field
// already.
var useless = map[string]validation{
	".resources.claims":           {"self.size() == 0", "resources.claims cannot be used, since the Pod has no resourceClaims"},
	".env[].valueFrom.fileKeyRef": {"false", "fileKeyRef cannot be used, since the Pod has no volume with environment files"},
}

type validation struct{ rule, message string }

// generated is what controller-gen writes for a resource.Quantity. It takes "1e5.5", which
// resource.ParseQuantity does not, and "1e-100000000", over which that takes a minute.
const generated = `^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$`

// quantity is what replaces it. All that it takes can be parsed, and at once.
const (
	quantity          = `^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?$`
	maxQuantityLength = 64
)

// dateTime is RFC 3339 as Go reads it, without leap seconds.
const (
	dateTime = `^([0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))|` +
		`([0-9]{2}(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)-02-29)` +
		`T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`
	maxDateTimeLength = 40
)

// limit bounds a schema and all below it. Its path ends as the keys of longer and useless do:
// "[]" stands for the items of a list, "{}" for the values of a map.
func limit(schema node, path string) error {
	for suffix, v := range useless {
		if strings.HasSuffix(path, suffix) {
			rules, _ := schema["x-kubernetes-validations"].([]any)
			schema["x-kubernetes-validations"] = append(rules, node{"rule": v.rule, "message": v.message})
		}
	}
	if schema["x-kubernetes-int-or-string"] == true {
		return limitQuantity(schema, path)
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
			return fmt.Errorf("%s is an integer without a format, so that nothing bounds it", path)
		}
		return nil
	}
	return fmt.Errorf("%s has the type %v, which nothing bounds", path, schema["type"])
}

func limitObject(schema node, path string) error {
	if schema["x-kubernetes-preserve-unknown-fields"] == true {
		return fmt.Errorf("%s keeps unknown fields, which nothing bounds", path)
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

func limitQuantity(schema node, path string) error {
	if schema["pattern"] != generated {
		return fmt.Errorf("%s is an int-or-string, but not a quantity as controller-gen writes one", path)
	}
	schema["pattern"], schema["maxLength"] = quantity, maxQuantityLength
	return nil
}

func limitString(schema node, path string) error {
	if format, has := schema["format"]; has {
		if format != "date-time" {
			return fmt.Errorf("%s is a string with the format %v: use a pattern", path, format)
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

// limitTime has a pattern take the place of a format. The API server takes any list for a string
// that has a format (k8s.io/kube-openapi/pkg/validation/validate/type.go), and looks no further
// into it; and for the format date-time it takes more than Go does, such as a lower-case "t".
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
