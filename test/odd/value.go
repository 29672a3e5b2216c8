package odd

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

// inOrder goes through a map in the order of its keys, so that a seed means the same every time.
func inOrder[T any](values map[string]T) iter.Seq2[string, T] {
	return func(yield func(string, T) bool) {
		for _, key := range slices.Sorted(maps.Keys(values)) {
			if !yield(key, values[key]) {
				return
			}
		}
	}
}

// value makes a value that a schema allows. The field is the name of the property that it is of.
func (m *maker) value(s *apiextensionsv1.JSONSchemaProps, field string) any {
	switch {
	case s.Nullable && m.with(0.1):
		return nil
	case len(s.Enum) > 0:
		return decoded(one(m.Rand, s.Enum).Raw)
	case s.XIntOrString:
		return m.quantity(s)
	case s.Type == "string":
		return m.text(s, field)
	case s.Type == "integer":
		return m.integer(s)
	case s.Type == "number":
		return one(m.Rand, []any{0.0, -0.5, 1e300, 1.0})
	case s.Type == "boolean":
		return m.with(0.5)
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

// object makes an object with its required properties and a share of the others.
func (m *maker) object(s *apiextensionsv1.JSONSchemaProps) map[string]any {
	made := map[string]any{}
	for name, property := range inOrder(s.Properties) {
		if has(&property, refuseAll) {
			continue
		}
		if slices.Contains(s.Required, name) || m.with(m.full) {
			made[name] = m.value(&property, name)
		}
	}
	return made
}

// Rules by which a field cannot be used, or a list has to be empty.
const (
	refuseAll   = "false"
	mustBeEmpty = "self.size() == 0"
)

// has reports whether a schema has a rule.
func has(s *apiextensionsv1.JSONSchemaProps, rule string) bool {
	return slices.ContainsFunc(s.XValidations, func(r apiextensionsv1.ValidationRule) bool { return r.Rule == rule })
}

// integer makes an integer within its bounds, often at one of them.
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
		low, low + 1, high - 1, high, 0, 1, -1, 65535, 65536, math.MaxInt32, math.MaxInt32 + 1, 1 << 53, m.Int64N(math.MaxInt64),
	}), low), high)
}

// list makes a list: often empty, of one item, or as long as it may be, and with duplicates
// where they are allowed.
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
	if length = min(max(length, least), most); has(s, mustBeEmpty) {
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
		if len(made) > 0 && m.with(0.05) {
			item = made[0]
		}
		made = append(made, item)
	}
	return distinct(s, made)
}

// distinct drops the items of a list that would be refused for being there twice.
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

// dictionary makes a map with keys that its rules allow.
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

// older finds what a rule compares with its earlier value: all of it, or one of its properties.
var older = regexp.MustCompile(`oldSelf(\.[A-Za-z]+)?`)

// unchanged returns a value with those parts of an earlier one that a rule of the schema compares
// with it: such a part may not change, or only in one direction.
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
