package fuzz

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// inOrder iterates over a map in the order of its keys, so that the same seed always generates the same objects.
func inOrder[T any](values map[string]T) iter.Seq2[string, T] {
	return func(yield func(string, T) bool) {
		for _, key := range slices.Sorted(maps.Keys(values)) {
			if !yield(key, values[key]) {
				return
			}
		}
	}
}

// value returns a value for a property, mostly a value that the schema allows. field is the name of the property.
func (m *maker) value(s *apiextensionsv1.JSONSchemaProps, field string) any {
	switch {
	case s.Nullable && m.chance(0.1):
		return nil
	case len(s.Enum) > 0:
		return decoded(one(m.Rand, s.Enum).Raw)
	case s.XIntOrString && s.Pattern != "":
		return m.quantity(s)
	case s.XIntOrString && m.chance(0.5):
		return one(m.Rand, []string{"http", "25%", "0%", "100%", "1%", "", "%", "-1%", "99999999999%", "a b"})
	case s.XIntOrString:
		return m.integer(s)
	case s.Type == "string":
		return m.text(s, field)
	case s.Type == "integer":
		return m.integer(s)
	case s.Type == "number":
		return one(m.Rand, []any{0.0, -0.5, 1e300, 1.0})
	case s.Type == "boolean":
		return m.chance(0.5)
	case s.Type == "array":
		return m.list(s, field)
	case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
		return m.dictionary(s, field)
	case len(s.Properties) > 0:
		return m.object(s)
	default:
		return map[string]any{"odd": one(m.Rand, oddTexts)}
	}
}

func decoded(raw []byte) (value any) {
	if json.Unmarshal(raw, &value) != nil {
		return nil
	}
	return value
}

// object returns an object with its required properties and a share of its optional properties.
func (m *maker) object(s *apiextensionsv1.JSONSchemaProps) map[string]any {
	made := map[string]any{}
	for name, property := range inOrder(s.Properties) {
		if hasRule(&property, rejectAll) {
			continue
		}
		if slices.Contains(s.Required, name) || m.chance(m.full) {
			made[name] = m.value(&property, name)
		}
	}
	return made
}

// The validation rule that forbids a field, and the rule that requires an empty list.
const (
	rejectAll   = "false"
	mustBeEmpty = "self.size() == 0"
)

// hasRule reports whether a schema has a validation rule.
func hasRule(s *apiextensionsv1.JSONSchemaProps, rule string) bool {
	return slices.ContainsFunc(s.XValidations, func(r apiextensionsv1.ValidationRule) bool { return r.Rule == rule })
}

// integer returns an integer within the bounds of a schema, often at one of the bounds.
func (m *maker) integer(s *apiextensionsv1.JSONSchemaProps) int64 {
	low, high := int64(math.MinInt64), int64(math.MaxInt64)
	if s.Format == "int32" {
		low, high = math.MinInt32, math.MaxInt32
	}
	if s.Minimum != nil {
		low = max(low, int64(*s.Minimum))
	}
	if s.Maximum != nil && *s.Maximum < float64(high) {
		high = int64(*s.Maximum)
	}
	if !m.odd() {
		return min(max(int64(m.IntN(5)), low), high)
	}
	return min(max(one(m.Rand, []int64{
		low, low + 1, high - 1, high, 0, 1, -1, 65535, 65536, math.MaxInt32, math.MaxInt32 + 1, 1 << 53,
		m.Int64N(math.MaxInt64),
	}), low), high)
}

// list returns a list, often with no item, one item, or as many items as the schema allows. The list may have
// duplicates where the schema allows them.
func (m *maker) list(s *apiextensionsv1.JSONSchemaProps, field string) []any {
	least, most := 0, 300
	if s.MinItems != nil {
		least = int(*s.MinItems)
	}
	if s.MaxItems != nil {
		most = int(*s.MaxItems)
	}
	length := 1 + m.IntN(3)
	if m.odd() {
		length = []int{0, 1, 2, 17, most}[weighted(m.Rand, 6, 6, 6, 2, 1)]
	}
	if length = min(max(length, least), most); hasRule(s, mustBeEmpty) {
		length = 0
	}
	made := []any{}
	for len(made) < length {
		if len(made) > 3 && m.budget <= 0 && len(made) >= least {
			break
		}
		if len(made) > 3 {
			m.budget -= 64
		}
		item := m.value(s.Items.Schema, field)
		if len(made) > 0 && m.chance(0.05) {
			item = made[0]
		}
		made = append(made, item)
	}
	return distinct(s, made)
}

// distinct drops the items that the schema of a list forbids as duplicates.
func distinct(s *apiextensionsv1.JSONSchemaProps, items []any) []any {
	if s.XListType == nil || *s.XListType == "atomic" {
		return items
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(items, func(item any) bool {
		key := fmt.Sprint(item)
		if properties, ok := item.(map[string]any); ok && *s.XListType == "map" {
			var parts []string
			for _, name := range s.XListMapKeys {
				part, found := properties[name]
				if !found {
					part = decodedDefault(s.Items.Schema.Properties[name])
				}
				parts = append(parts, fmt.Sprintf("%q", fmt.Sprint(part)))
			}
			key = strings.Join(parts, ",")
		}
		was := seen[key]
		seen[key] = true
		return was
	})
}

func decodedDefault(s apiextensionsv1.JSONSchemaProps) any {
	if s.Default == nil {
		return nil
	}
	return decoded(s.Default.Raw)
}

// dictionary returns a map with keys from the method key. field is the name of the property that holds the map.
func (m *maker) dictionary(s *apiextensionsv1.JSONSchemaProps, field string) map[string]any {
	most := 200
	if s.MaxProperties != nil {
		most = int(*s.MaxProperties)
	}
	length := 1 + m.IntN(2)
	if m.odd() {
		length = []int{0, 1, 3, 20, most}[weighted(m.Rand, 5, 5, 5, 2, 1)]
	}
	made := map[string]any{}
	for range min(length, most) {
		if len(made) > 3 && m.budget <= 0 {
			break
		}
		m.budget -= 64
		made[m.key(s, field)] = m.value(s.AdditionalProperties.Schema, "")
	}
	return made
}

// older matches oldSelf in a validation rule, and captures the property of oldSelf that the rule uses, if any.
var older = regexp.MustCompile(`oldSelf(\.[A-Za-z]+)?`)

// unchanged returns now with all values from before that a validation rule compares with oldSelf. Such a value is
// immutable, or may change only in one direction. unchanged may modify now.
func unchanged(s *apiextensionsv1.JSONSchemaProps, before, now any) any {
	var kept []string
	for _, rule := range s.XValidations {
		for _, found := range older.FindAllStringSubmatch(rule.Rule, -1) {
			if found[1] == "" {
				return before
			}
			kept = append(kept, found[1][1:])
		}
	}
	then, ok1 := before.(map[string]any)
	next, ok2 := now.(map[string]any)
	if !ok1 || !ok2 {
		return now
	}
	for name, property := range inOrder(s.Properties) {
		value := unchanged(&property, then[name], next[name])
		if slices.Contains(kept, name) {
			value = then[name]
		}
		if delete(next, name); value != nil {
			next[name] = value
		}
	}
	return next
}
