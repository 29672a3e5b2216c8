// Package schema reads the schemas of Windlass' kinds out of artifacts/crds, for tests of what
// holds for every field.
package schema

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/yaml"

	"windlass.dev/windlass/test/cluster"
)

// Node is a schema, or another object in JSON.
type Node = map[string]any

// Version is one version of a kind.
type Version struct {
	Group, Name, Kind, Plural string
	Namespaced                bool
	Root                      Node
}

// Field is a place in the objects of a version.
type Field struct {
	Of Version
	// Path has the names of fields, "[]" for an item of a list and "{}" for a value of a map.
	Path   []string
	Schema Node
}

func (f Field) String() string { return f.Of.Kind + "." + f.Of.Name + ": " + strings.Join(f.Path, ".") }

// Definitions are the CustomResourceDefinitions.
func Definitions(t *testing.T) (all []Node) {
	t.Helper()
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(root, "artifacts", "crds", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no CustomResourceDefinitions: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var definition Node
		if err := yaml.Unmarshal(text, &definition); err != nil {
			t.Fatalf("reading %s: %v", file, err)
		}
		all = append(all, definition)
	}
	return all
}

// Versions are those of all kinds.
func Versions(t *testing.T) (all []Version) {
	t.Helper()
	for _, definition := range Definitions(t) {
		spec := definition["spec"].(Node)
		names := spec["names"].(Node)
		for _, version := range spec["versions"].([]any) {
			v := version.(Node)
			all = append(all, Version{
				Group: spec["group"].(string), Name: v["name"].(string), Kind: names["kind"].(string), Plural: names["plural"].(string),
				Namespaced: spec["scope"] == "Namespaced", Root: v["schema"].(Node)["openAPIV3Schema"].(Node),
			})
		}
	}
	return all
}

// Fields are those of a part, spec or status, the part included.
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

// Children are the schemas right below one, by the element of a path that leads there.
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

// IsQuantity reports whether a schema is that of a resource.Quantity, the only type that is
// either an integer or a string.
func IsQuantity(schema Node) bool { return schema["x-kubernetes-int-or-string"] == true }
