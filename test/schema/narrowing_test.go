package schema_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"windlass.dev/windlass/test/schema"
)

// versionsWith returns the versions of a CRD whose spec has a field with the given schema in YAML.
func versionsWith(t *testing.T, version, field string) []schema.Version {
	t.Helper()
	return schema.VersionsIn(t, []string{fmt.Sprintf(`
spec:
  group: example.com
  names: {kind: Toy, plural: toys}
  scope: Namespaced
  versions:
  - name: %s
    schema:
      openAPIV3Schema:
        type: object
        properties: {status: {type: object}, spec: {type: object, properties: {%s}}}
`, version, field)})
}

func TestNarrowingsOfASchema(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before, after string
		want          []string
	}{
		"no change": {
			"a: {type: string, maxLength: 5, enum: [x, y]}", "a: {type: string, maxLength: 5, enum: [x, y], " +
				"description: other}", nil,
		},
		"a new field":     {"a: {type: string}", "a: {type: string}, b: {type: string}", nil},
		"a removed field": {"a: {type: string}, b: {type: string}", "a: {type: string}", []string{"spec.b: removed"}},
		"a removed field in a list": {
			"a: {type: array, items: {type: object, properties: {b: {type: string}}}}",
			"a: {type: array, items: {type: object}}", []string{"spec.a.[].b: removed"},
		},
		"another type": {"a: {type: string}", "a: {type: integer}", []string{"spec.a: type"}},
		"another default": {
			"a: {type: integer, default: 1}", "a: {type: integer, default: 2}", []string{"spec.a: default"},
		},
		"a new limit":       {"a: {type: string}", "a: {type: string, maxLength: 5}", []string{"spec.a: maxLength"}},
		"a lower limit":     {"a: {type: array, maxItems: 5}", "a: {type: array, maxItems: 4}", []string{"spec.a: maxItems"}},
		"a higher limit":    {"a: {type: array, maxItems: 5}", "a: {type: array, maxItems: 6}", nil},
		"no limit any more": {"a: {type: array, maxItems: 5}", "a: {type: array}", nil},
		"a higher minimum": {
			"a: {type: integer, minimum: 0}", "a: {type: integer, minimum: 1}", []string{"spec.a: minimum"},
		},
		"a lower minimum": {"a: {type: integer, minimum: 1}", "a: {type: integer, minimum: 0}", nil},
		"another pattern": {
			"a: {type: string, pattern: x}", "a: {type: string, pattern: y}", []string{"spec.a: pattern"},
		},
		"no pattern any more": {"a: {type: string, pattern: x}", "a: {type: string}", nil},
		"a value less": {
			"a: {type: string, enum: [x, y]}", "a: {type: string, enum: [x]}", []string{"spec.a: enum"},
		},
		"a value more":            {"a: {type: string, enum: [x]}", "a: {type: string, enum: [x, y]}", nil},
		"a new list of values":    {"a: {type: string}", "a: {type: string, enum: [x]}", []string{"spec.a: enum"}},
		"any value":               {"a: {type: string, enum: [x]}", "a: {type: string}", nil},
		"null no longer accepted": {"a: {type: string, nullable: true}", "a: {type: string}", []string{"spec.a: nullable"}},
		"unknown fields dropped": {
			"a: {type: object, x-kubernetes-preserve-unknown-fields: true}", "a: {type: object}", []string{
				"spec.a: x-kubernetes-preserve-unknown-fields",
			},
		},
		"a field that becomes required": {
			"a: {type: object, required: [b]}", "a: {type: object, required: [b, c]}", []string{"spec.a: required"},
		},
		"a field that becomes optional": {"a: {type: object, required: [b]}", "a: {type: object}", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, n := range schema.Narrowings(versionsWith(t, "v1", c.before), versionsWith(t, "v1", c.after)) {
				got = append(got, n.String())
			}
			for i := range c.want {
				c.want[i] = "Toy.v1: " + c.want[i]
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("narrowings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRemovedVersionAndOtherScopeAreNarrowings(t *testing.T) {
	t.Parallel()
	const toys = "spec: {group: example.com, names: {kind: Toy, plural: toys}, scope: %s, versions: [{name: %s, " +
		"served: %t, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object}, status: {type: object}}}}}]}"
	before := schema.VersionsIn(t, []string{fmt.Sprintf(toys, "Namespaced", "v1", true)})
	for name, c := range map[string]struct {
		scope, version string
		served         bool
		want           string
	}{
		"no v1":                      {"Namespaced", "v2", true, "removed"},
		"a v1 that is not served":    {"Namespaced", "v1", false, "removed"},
		"objects without namespaces": {"Cluster", "v1", true, "scope"},
	} {
		got := schema.Narrowings(before, schema.VersionsIn(t, []string{fmt.Sprintf(toys, c.scope, c.version, c.served)}))
		if diff := cmp.Diff([]schema.Narrowing{{Field: "Toy.v1", Keyword: c.want}}, got); diff != "" {
			t.Errorf("%s: narrowings (-want +got):\n%s", name, diff)
		}
	}
}
