package schema_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"windlass.dev/windlass/test/schema"
)

// each calls check with every field of the spec and status of every version.
func each(t *testing.T, check func(f schema.Field)) {
	t.Helper()
	for _, v := range schema.Versions(t) {
		for _, part := range []string{"spec", "status"} {
			for _, f := range v.Fields(part) {
				check(f)
			}
		}
	}
}

func TestEveryStringListAndMapHasALimit(t *testing.T) {
	t.Parallel()
	each(t, func(f schema.Field) {
		limit := map[any]string{"string": "maxLength", "array": "maxItems"}[f.Schema["type"]]
		if f.Schema["additionalProperties"] != nil {
			limit = "maxProperties"
		}
		if schema.IsIntOrString(f.Schema) {
			limit = "maxLength"
		}
		if limit == "" || f.Schema["enum"] != nil {
			return
		}
		if n, ok := schema.Number(f.Schema[limit]); !ok || n > 512<<10 {
			t.Errorf("%s has %s %v", f, limit, f.Schema[limit])
		}
	})
}

func TestNoStringHasAFormat(t *testing.T) {
	t.Parallel()
	each(t, func(f schema.Field) {
		if f.Schema["type"] == "string" && f.Schema["format"] != nil {
			t.Errorf("%s has the format %v, so that the API server also accepts a list in place of the string", f,
				f.Schema["format"])
		}
	})
}

func TestEveryIntegerIsInt32OrInt64(t *testing.T) {
	t.Parallel()
	each(t, func(f schema.Field) {
		if f.Schema["type"] == "integer" && f.Schema["format"] != "int32" && f.Schema["format"] != "int64" {
			t.Errorf("%s has the format %v", f, f.Schema["format"])
		}
	})
}

func TestGoParsesEveryQuantityThatPatternAccepts(t *testing.T) {
	t.Parallel()
	nines := strings.Repeat("9", 24)
	texts := []string{}
	for _, sign := range []string{"", "+", "-"} {
		for _, number := range []string{
			"0", "1", "1.", ".5", "0.1", "007", nines, nines + "." + nines, "." + nines, nines + "9", "", ".", "1.2.3", "x",
		} {
			for _, suffix := range []string{
				"", "m", "n", "u", "k", "M", "G", "T", "P", "E", "Ki", "Ei", "e0", "E5", "e-3", "e+99", "e-99", "e100",
				"e5.5", "e", "ki", "mi", " ",
			} {
				texts = append(texts, sign+number+suffix)
			}
		}
	}
	each(t, func(f schema.Field) {
		if !schema.IsQuantity(f.Schema) {
			return
		}
		pattern := regexp.MustCompile(f.Schema["pattern"].(string))
		most, _ := schema.Number(f.Schema["maxLength"])
		for _, text := range texts {
			if !pattern.MatchString(text) || len(text) > most {
				continue
			}
			parsed, err := resource.ParseQuantity(text)
			if err != nil {
				t.Fatalf("%s accepts %q: %v", f, text, err)
			}
			// A Go client writes the quantity in this form when it updates the object.
			if again := parsed.String(); !pattern.MatchString(again) || len(again) > most {
				t.Fatalf("%s accepts %q, but not the equal quantity %q", f, text, again)
			}
		}
		for _, text := range []string{"100m", "0.5", "1.5Gi", "64Mi", "1e3", "12E6", "9223372036854775807"} {
			if !pattern.MatchString(text) {
				t.Errorf("%s does not accept %q", f, text)
			}
		}
	})
}

func TestGoParsesEveryTimeThatPatternAccepts(t *testing.T) {
	t.Parallel()
	schedules := 0
	each(t, func(f schema.Field) {
		var patterns []*regexp.Regexp
		for _, pattern := range schema.Patterns(f.Schema) {
			patterns = append(patterns, regexp.MustCompile(pattern))
		}
		valid := func(text string) bool {
			return !slices.ContainsFunc(patterns, func(pattern *regexp.Regexp) bool { return !pattern.MatchString(text) })
		}
		if len(patterns) == 0 || !valid("2024-02-29T20:30:00Z") || valid("a") || valid("/") {
			return
		}
		if f.Path[len(f.Path)-1] == "schedule" {
			schedules++
		}
		accepted := 0
		for _, year := range []string{"0000", "1900", "2000", "2023", "2024", "9999"} {
			for _, day := range []string{
				"01-31", "02-28", "02-29", "02-30", "04-30", "04-31", "12-31", "00-01", "13-01", "01-00", "1-1",
			} {
				for _, clock := range []string{
					"T00:00:00Z", "t00:00:00Z", "T23:59:59.123456789+23:59", "T24:00:00Z", "T23:59:60Z",
					"T00:00:00+24:00", "T00:00:00z", "T00:00:00", "T00:00:00,5Z", " 00:00:00Z",
				} {
					text := year + "-" + day + clock
					_, err := time.Parse(time.RFC3339, text)
					if matches := valid(text); matches && err != nil {
						t.Errorf("%s accepts %s: %v", f, text, err)
					} else if matches {
						accepted++
					}
				}
			}
		}
		if accepted < 20 {
			t.Errorf("%s accepts only %d of the times, want at least 20", f, accepted)
		}
	})
	if schedules != 3 { // At in two versions, and the component of a Platform
		t.Errorf("%d schedules only accept times, want 3", schedules)
	}
}

func TestEveryRuleOfAWholeObjectNamesAField(t *testing.T) {
	t.Parallel()
	found := 0
	for _, v := range schema.Versions(t) {
		rules, _ := v.Root["x-kubernetes-validations"].([]any)
		for _, rule := range rules {
			found++
			if rule.(schema.Node)["fieldPath"] == nil {
				t.Errorf("%s.%s has a rule without fieldPath: %v", v.Kind, v.Name, rule.(schema.Node)["rule"])
			}
		}
	}
	if found < 11 {
		t.Errorf("found only %d rules of whole objects, want at least 11", found)
	}
}
