package fuzz

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"windlass.dev/windlass/test/framework"
)

var someSurroundings = Surroundings{Namespaces: []string{"one", "two"}, Names: []string{"server", "settings"}}

func shippedKinds(t *testing.T) []Kind {
	t.Helper()
	root, err := framework.Root()
	if err != nil {
		t.Fatal(err)
	}
	kinds, err := ReadKinds(filepath.Join(root, "artifacts", "crds"))
	if err != nil {
		t.Fatal(err)
	}
	return kinds
}

func TestReadKindsFindsAllKindsAndVersions(t *testing.T) {
	t.Parallel()
	var found []string
	for _, kind := range shippedKinds(t) {
		for _, version := range kind.Served {
			found = append(found, kind.In(version).Resource.GroupVersion().String()+" "+kind.Name)
		}
	}
	want := []string{
		"cnat.programming-kubernetes.info/v1 At", "cnat.programming-kubernetes.info/v1alpha1 At", "windlass.dev/v1alpha1 App",
		"windlass.dev/v1alpha1 Database", "windlass.dev/v1alpha1 ExternalDatabase", "windlass.dev/v1alpha1 Platform",
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("kinds, -want +got:\n%s", diff)
	}
}

func TestSameSeedMakesSameObject(t *testing.T) {
	framework.InQuarter(t)
	t.Parallel()
	for _, kind := range shippedKinds(t) {
		for number := range 50 {
			for revision := range 2 {
				once := someSurroundings.Object(7, kind, number, revision)
				again := someSurroundings.Object(7, kind, number, revision)
				if !reflect.DeepEqual(once, again) {
					t.Fatalf("%s %d: two objects differ:\n%s", kind.Name, number, cmp.Diff(once, again))
				}
				if once.GetName() != someSurroundings.Object(7, kind, number, 1-revision).GetName() {
					t.Errorf("%s %d: another revision has another name", kind.Name, number)
				}
			}
		}
	}
}

func TestObjectsAreValidJSON(t *testing.T) {
	t.Parallel()
	for _, kind := range shippedKinds(t) {
		for number := range 50 {
			object := someSurroundings.Object(3, kind, number, 0)
			text, err := object.MarshalJSON()
			if err != nil {
				t.Fatalf("%s %d: %v", kind.Name, number, err)
			}
			read := map[string]any{}
			if err := json.Unmarshal(text, &read); err != nil {
				t.Fatalf("%s %d: %v", kind.Name, number, err)
			}
		}
	}
}

// TestGeneratorCoversEveryFieldAndEnumValue generates 4000 objects of each kind. The objects together must have every
// field, every enum value, and lists of different lengths.
func TestGeneratorCoversEveryFieldAndEnumValue(t *testing.T) {
	t.Parallel()
	for _, kind := range shippedKinds(t) {
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			seen := map[string]bool{}
			for number := range 4000 {
				object := someSurroundings.Object(2, kind, number, 0)
				in := kind
				for _, version := range kind.Served {
					if version.Name == object.GroupVersionKind().Version {
						in = kind.In(version)
					}
				}
				schema := in.Schema.Properties["spec"]
				note(seen, in.Resource.Version+" spec", &schema, object.Object["spec"])
			}
			for _, version := range kind.Served {
				schema := version.Schema.Properties["spec"]
				for _, path := range pathsOf(version.Name+" spec", &schema) {
					if !seen[path] {
						t.Errorf("no object has %s", path)
					}
				}
			}
		})
	}
}

// note records in seen the fields and enum values of the value at a path, and whether its lists are empty, have one
// item, or have more.
func note(seen map[string]bool, path string, s *apiextensionsv1.JSONSchemaProps, value any) {
	seen[path] = true
	if len(s.Enum) > 0 {
		seen[fmt.Sprintf("%s=%v", path, value)] = true
	}
	switch value := value.(type) {
	case map[string]any:
		for name, property := range s.Properties {
			if part, ok := value[name]; ok {
				note(seen, path+"."+name, &property, part)
			}
		}
	case []any:
		seen[fmt.Sprintf("%s of %d", path, min(len(value), 2))] = true
		for _, item := range value {
			note(seen, path+"[]", s.Items.Schema, item)
		}
	}
}

// pathsOf returns the paths that note must have recorded.
func pathsOf(path string, s *apiextensionsv1.JSONSchemaProps) []string {
	paths := []string{path}
	for _, member := range s.Enum {
		paths = append(paths, fmt.Sprintf("%s=%v", path, decoded(member.Raw)))
	}
	for name, property := range inOrder(s.Properties) {
		if hasRule(&property, rejectAll) {
			continue
		}
		// a rule forbids this field in components
		if name != "ttlSecondsAfterFinished" || !strings.Contains(path, "components") {
			paths = append(paths, pathsOf(path+"."+name, &property)...)
		}
	}
	if s.Items != nil && hasRule(s, mustBeEmpty) {
		return append(paths, path+" of 0")
	}
	if s.Items != nil {
		paths = append(paths, path+" of 1")
		if s.MaxItems == nil || *s.MaxItems > 1 {
			paths = append(paths, path+" of 2")
		}
		if s.MinItems == nil && !strings.HasSuffix(path, "components") {
			paths = append(paths, path+" of 0")
		}
		paths = append(paths, pathsOf(path+"[]", s.Items.Schema)...)
	}
	return paths
}

func TestTextsMatchTheirSchema(t *testing.T) {
	t.Parallel()
	ten, three := int64(10), int64(3)
	for _, test := range []struct {
		name   string
		schema apiextensionsv1.JSONSchemaProps
	}{
		{"without limits", apiextensionsv1.JSONSchemaProps{}},
		{"not empty", apiextensionsv1.JSONSchemaProps{MinLength: &three}},
		{"short", apiextensionsv1.JSONSchemaProps{MaxLength: &three}},
		{"between two lengths", apiextensionsv1.JSONSchemaProps{MinLength: &three, MaxLength: &ten}},
		{
			"a pattern and a length", apiextensionsv1.JSONSchemaProps{
				Pattern: `^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`, MaxLength: &ten,
			},
		},
		{"a class that is everything but", apiextensionsv1.JSONSchemaProps{Pattern: `^[^\x00-\x1f\x7f]*$`, MaxLength: &ten}},
		{"rules", apiextensionsv1.JSONSchemaProps{MaxLength: &ten, XValidations: apiextensionsv1.ValidationRules{
			{Rule: `self.matches('^[a-z]{2}[.]?[0-9]*$') && self.matches('^[^q]+$') && !self.matches('x')`}}}},
		{"alternatives", apiextensionsv1.JSONSchemaProps{Pattern: `^(\*\.)?(a|b{2,3})+(\.[a-z]+)*$`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			allowed := permits(&test.schema)
			var distinct []string
			for number := range 1000 {
				m := newMaker(random(1, test.name, number, 0), someSurroundings, number)
				test.schema.Type = "string"
				text := m.value(&test.schema, "").(string)
				if !allowed(text) {
					t.Fatalf("the schema does not allow %q", text)
				}
				if !slices.Contains(distinct, text) {
					distinct = append(distinct, text)
				}
			}
			if len(distinct) < 20 {
				t.Errorf("got only %d different texts, want at least 20: %q", len(distinct), distinct)
			}
		})
	}
}

func TestGeneratorMakesOddQuantitiesWithinPattern(t *testing.T) {
	t.Parallel()
	schema := &apiextensionsv1.JSONSchemaProps{XIntOrString: true, Pattern: `^[0-9]+(\.[0-9]+)?(m|Gi|e[0-9.]+)?$`}
	seen := map[any]bool{}
	for number := range 3000 {
		m := newMaker(random(1, "quantity", number, 0), someSurroundings, number)
		seen[m.value(schema, "")] = true
	}
	for _, want := range []any{"1e5.5", "1e100000000", int64(-1), "0", "1Gi"} {
		if !seen[want] {
			t.Errorf("%v is not generated", want)
		}
	}
	if seen["-1Gi"] {
		t.Error("-1Gi is generated, although the pattern does not allow it")
	}
}

func TestRevisionsMostlyKeepImmutableFields(t *testing.T) {
	t.Parallel()
	for _, kind := range shippedKinds(t) {
		if kind.Name != "Database" {
			continue
		}
		same := 0
		for number := range 100 {
			before, after := someSurroundings.Object(1, kind, number, 0), someSurroundings.Object(1, kind, number, 1)
			if before.Object["spec"].(map[string]any)["version"] == after.Object["spec"].(map[string]any)["version"] {
				same++
			}
		}
		if same < 80 || same == 100 {
			t.Errorf("%d of 100 updates keep the version, want 80 to 99", same)
		}
	}
}
