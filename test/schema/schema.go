// Package schema reads the schemas of Windlass' kinds in artifacts/crds, for tests that check every
// field.
package schema

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/yaml"

	"windlass.dev/windlass/test/framework"
)

// Node is a JSON object, for example a schema.
type Node = map[string]any

// Version is one version of a kind.
type Version struct {
	Group, Name, Kind, Plural string
	Namespaced                bool
	Root                      Node
}

// Field is a field, list item or map value in the objects of a version.
type Field struct {
	Of Version
	// Path holds names of fields, "[]" for an item of a list and "{}" for a value of a map.
	Path   []string
	Schema Node
}

func (f Field) String() string { return f.Of.Kind + "." + f.Of.Name + ": " + strings.Join(f.Path, ".") }

// Definitions returns the CustomResourceDefinitions in artifacts/crds.
func Definitions(t *testing.T) []Node {
	t.Helper()
	all, err := definitions()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func definitions() (all []Node, err error) {
	root, err := framework.Root()
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(root, "artifacts", "crds", "*.yaml"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no CustomResourceDefinitions in artifacts/crds: %w", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var definition Node
		if err := yaml.Unmarshal(text, &definition); err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
		all = append(all, definition)
	}
	return all, nil
}

// Versions returns all served versions of all kinds.
func Versions(t *testing.T) []Version {
	t.Helper()
	return versions(Definitions(t))
}

// VersionsIn returns all served versions in the YAML texts of CustomResourceDefinitions.
func VersionsIn(t *testing.T, texts []string) []Version {
	t.Helper()
	var all []Node
	for _, text := range texts {
		var definition Node
		if err := yaml.Unmarshal([]byte(text), &definition); err != nil {
			t.Fatal(err)
		}
		all = append(all, definition)
	}
	return versions(all)
}

func versions(definitions []Node) (all []Version) {
	for _, definition := range definitions {
		spec := definition["spec"].(Node)
		names := spec["names"].(Node)
		for _, version := range spec["versions"].([]any) {
			v := version.(Node)
			if v["served"] == false {
				continue
			}
			all = append(all, Version{
				Group: spec["group"].(string), Name: v["name"].(string), Kind: names["kind"].(string),
				Plural:     names["plural"].(string),
				Namespaced: spec["scope"] == "Namespaced", Root: v["schema"].(Node)["openAPIV3Schema"].(Node),
			})
		}
	}
	return all
}

// Fields returns the field part, which is spec or status, and all fields below it, sorted by path.
func (v Version) Fields(part string) (found []Field) {
	var walk func(schema Node, path []string)
	walk = func(schema Node, path []string) {
		found = append(found, Field{v, path, schema})
		for name, child := range Children(schema) {
			walk(child, append(slices.Clone(path), name))
		}
	}
	walk(Children(v.Root)[part], []string{part})
	slices.SortFunc(found, func(a, b Field) int { return slices.Compare(a.Path, b.Path) })
	return found
}

// Children returns the schemas directly below a schema. A key is an element of Field.Path.
func Children(schema Node) map[string]Node {
	below := map[string]Node{}
	fields, _ := schema["properties"].(Node)
	for name, child := range fields {
		below[name] = child.(Node)
	}
	if items, ok := schema["items"].(Node); ok {
		below["[]"] = items
	}
	if values, ok := schema["additionalProperties"].(Node); ok {
		below["{}"] = values
	}
	return below
}

// IsIntOrString reports whether a schema describes a resource.Quantity or an intstr.IntOrString.
func IsIntOrString(schema Node) bool { return schema["x-kubernetes-int-or-string"] == true }

// IsQuantity reports whether a schema describes a resource.Quantity.
func IsQuantity(schema Node) bool { return IsIntOrString(schema) && schema["pattern"] != nil }

// Patterns returns all regular expressions that a string of this schema must match: its pattern, and the expressions
// of its validation rules.
func Patterns(schema Node) (all []string) {
	if pattern, ok := schema["pattern"].(string); ok {
		all = append(all, pattern)
	}
	rules, _ := schema["x-kubernetes-validations"].([]any)
	for _, rule := range rules {
		all = append(all, RulePatterns(rule.(Node)["rule"].(string))...)
	}
	return all
}

// matches captures the regular expression in a call self.matches('...') that is not negated.
var matches = regexp.MustCompile(`(?:^|[^!.\w])self\.matches\('((?:[^'\\]|\\.)*)'\)`)

// RulePatterns returns the regular expressions that a validation rule requires of a string. They are the arguments of
// the calls self.matches('...') that are joined with &&. A rule with || requires none.
func RulePatterns(rule string) (patterns []string) {
	if strings.Contains(rule, "||") {
		return nil
	}
	for _, found := range matches.FindAllStringSubmatch(rule, -1) {
		patterns = append(patterns, strings.ReplaceAll(found[1], `\\`, `\`))
	}
	return patterns
}
