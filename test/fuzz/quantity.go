package fuzz

import (
	"math"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// oddQuantities are quantities that are hard to parse, compare or convert, and strings that a pattern
// may mistake for quantities.
var oddQuantities = []any{
	"0", "-0", "+0", "00", ".0", "0.", "0m", "1n", "1u", "0.1n", "1m", "0.0000000001", "-1", "-1Gi", "+1", "001", "1.",
	".5", "1.5Gi", "0.5m", "0.3", "1.0000000001", "100m", "1E", "1e1", "1E1", "1e0", "1e-1", "1e+3",
	"1e18", "1e19", "1e30", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
	"-9223372036854775809", "8Ei", "7.9Ei", "16Ei", "9E", "99999999999999999999E", "18446744073709551616",
	"1e308", "1e999", "1e-999", "1e99999", "1e-99999", "1e-100000000", "1e100000000", "1e9223372036854775807", "1e5.5",
	"1e.5", "1e5.", "1e-.5", "1E5.5", "1.5e1.5", "0e5.5",
	strings.Repeat("9", 100), "0." + strings.Repeat("9", 100), strings.Repeat("0", 1000) + "1",
	strings.Repeat("9", 30) + "." + strings.Repeat("9", 30) + "Ei",
	int64(0), int64(1), int64(-1), int64(math.MaxInt32), int64(math.MaxInt64), int64(math.MinInt64), int64(1 << 53),
}

var usualQuantities = []any{"100m", "1", "64Mi", "1Gi", "0.5", int64(2)}

// quantity returns a number or string that a schema allows.
func (m *maker) quantity(s *apiextensionsv1.JSONSchemaProps) any {
	candidates := usualQuantities
	if m.odd() {
		if m.chance(0.1) {
			return m.matching(s)
		}
		candidates = oddQuantities
	}
	allowed := permits(s)
	return one(m.Rand, slices.DeleteFunc(slices.Clone(candidates), func(candidate any) bool {
		text, ok := candidate.(string)
		return ok && !allowed(text)
	}))
}
