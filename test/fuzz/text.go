package fuzz

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"windlass.dev/windlass/test/schema"
)

// oddTexts are strings that break other programs: shells, templates, file names, YAML, SQL, HTTP,
// terminals, and code that expects the name of a Kubernetes object.
var oddTexts = []string{
	"", " ", "  leading and trailing  ", "\t", "\n", "\r\n", "a\nb", "a\x00b", "\x00", "\x1b[31mred\x1b[0m", "\x7f", "\b",
	"é", "e\u0301", "日本語", "👩‍👩‍👧", "\u202eevil", "\ufeffbom", "\u00a0", "\u2028", "\ufffd", "𝕏", "İ", "ß", "ſ",
	`"`, `"quoted"`, "'", "''", "`id`", `\`, `\\`, `\"`, `\u0000`, "${HOME}", "$(HOME)", "$(A)$(B", "$$(A)", "$(", "$$",
	"$(DATABASE_URL)",
	"{{}}", "{{ .Name }}", "{{{", "%s%n%d", "%!s(MISSING)", "%", "%00", "%2e%2e",
	"null", "~", "true", "false", "yes", "no", "on", "y", "0", "00012", "-0", "+1", "1e9", "1e999", "0x10", "0o17",
	"1_000", ".5", "NaN", "Infinity", "2001-01-01",
	"{}", "[]", "[1", "- a", "a: b", "#", "a #b", "&a", "*a", "!!binary x", "|", ">", "<script>", "]]>", "<!--",
	"../../etc/passwd", "/", "//", "/dev/null", ".", "..", "...", "-", "--", "-rf", "--help", ";", "; rm -rf /",
	"|| true", "&& exit 1", "sleep infinity", "exit 3",
	"' or 1=1 --", `"; drop database app; --`, "postgres", "template1", "public", "pg_monitor", "select", "user", "PUBLIC",
	"a/b", "a:b", "a@b", "a@sha256:0", "a:b@sha256:" + strings.Repeat("0", 64), "http://x", "x:99999", "[::1]:80", "-a",
	"a-", "A", "a_b", "a..b", "a.", ".a", "xn--", "*", "*.example.com",
	"default", "kube-system", "system:masters", "windlass", "app", "http", "cpu", "PATH", "HOME", "DATABASE_URL",
	"PGPASSWORD", "POSTGRES_PASSWORD", "LD_PRELOAD", "=", "A=B", "metadata.name", "limits.cpu",
	strings.Repeat("a", 63), strings.Repeat("a", 64), strings.Repeat("a.", 126) + "a", strings.Repeat("a", 253),
	strings.Repeat("a", 254), strings.Repeat("é", 63), strings.Repeat("日", 63),
}

var usualTexts = []string{"a", "web", "shop", "registry.example.com/shop:1", "LEVEL", "info", "x1", "config", "key"}

// text returns a string for a property. The schema allows the string unless matching fails. field is the name of the
// property.
func (m *maker) text(s *apiextensionsv1.JSONSchemaProps, field string) string {
	if field == "schedule" {
		if m.chance(0.8) {
			return one(m.Rand, schedules)
		}
	}
	allowed := permits(s)
	if isName(field) && m.chance(0.6) {
		if name := one(m.Rand, m.names); allowed(name) {
			return name
		}
	}
	if !m.odd() {
		fitting := slices.DeleteFunc(slices.Clone(usualTexts), func(text string) bool { return !allowed(text) })
		if len(fitting) > 0 {
			return one(m.Rand, fitting)
		}
	}
	for range 10 {
		text := m.oddText(s)
		if allowed(text) {
			m.budget -= len(text)
			return text
		}
	}
	return m.matching(s)
}

// oddText returns an odd string. The schema may forbid the string.
func (m *maker) oddText(s *apiextensionsv1.JSONSchemaProps) string {
	switch weighted(m.Rand, 8, 2, 2, 1) {
	case 0:
		return one(m.Rand, oddTexts)
	case 1:
		return one(m.Rand, oddTexts) + one(m.Rand, oddTexts)
	case 2:
		if len(patterns(s)) > 0 {
			return m.matching(s)
		}
		return cut(one(m.Rand, oddTexts), int(valueOr(s.MinLength, 1)))
	default: // as long as the schema and the budget allow
		length := int(min(valueOr(s.MaxLength, 1<<20), int64(max(m.budget, 1))))
		filling := one(m.Rand, []string{"a", "é", "日", "𝕏", "0", "-", " ", `\`, `"`, "\n", "\x01", "$(A)", "a.", "a/"})
		return cut(strings.Repeat(filling, 1+length/len(filling)), length)
	}
}

// matching returns a string that matches the patterns of a schema. It generates the string from the first pattern.
// After 20 failed attempts, it returns the last string, even if the schema does not allow this string.
func (m *maker) matching(s *apiextensionsv1.JSONSchemaProps) string {
	allowed := permits(s)
	pattern := "^[a-z]+$"
	if required := patterns(s); len(required) > 0 {
		pattern = required[0]
	}
	text := ""
	for try := range 20 {
		if text = m.fromPattern(pattern, try < 10 && m.odd(), int(valueOr(s.MaxLength, 100))); allowed(text) {
			break
		}
	}
	m.budget -= len(text)
	return text
}

// permits returns a function that reports whether a schema allows a string.
func permits(s *apiextensionsv1.JSONSchemaProps) func(string) bool {
	required := patterns(s)
	return func(text string) bool {
		length := int64(utf8.RuneCountInString(text))
		return length >= valueOr(s.MinLength, 0) && length <= valueOr(s.MaxLength, 1<<30) &&
			!slices.ContainsFunc(required, func(pattern string) bool { return !compiled(pattern).MatchString(text) })
	}
}

// patterns returns the patterns that a string must match: the pattern of the schema, and the patterns of its validation
// rules.
func patterns(s *apiextensionsv1.JSONSchemaProps) (all []string) {
	if s.Pattern != "" {
		all = append(all, s.Pattern)
	}
	for _, rule := range s.XValidations {
		all = append(all, schema.RulePatterns(rule.Rule)...)
	}
	return all
}

// isName reports whether a field often holds the name of another object.
func isName(field string) bool {
	return field == "name" || field == "key" || strings.HasSuffix(field, "Name") || field == "dependsOn" || field == "host"
}

// cut returns at most the first length characters of a string.
func cut(text string, length int) string {
	for at := range text {
		if length == 0 {
			return text[:at]
		}
		length--
	}
	return text
}

func valueOr(limit *int64, otherwise int64) int64 {
	if limit == nil {
		return otherwise
	}
	return *limit
}

// schedules are times in the past, at which an At is due immediately, and times in the far future.
var schedules = []string{
	"2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z", "1970-01-01T00:00:00Z",
	"1970-01-01T00:00:00+23:59", "1970-01-01T00:00:00-23:59",
	"2024-02-29T23:59:59.999999999-12:00", "8999-12-31T23:59:59Z", "8999-12-31T23:59:59-23:59",
	"2262-04-11T23:47:16.854775807Z", "2262-04-12T00:00:00Z", "2038-01-19T03:14:08Z",
}

// matches captures the pattern that a validation rule requires for the keys of a map.
var matches = regexp.MustCompile(`[a-z]+\.matches\('([^']*)'\)`)

// key returns a key for the map that a schema describes. field is the name of the property that holds the map.
func (m *maker) key(s *apiextensionsv1.JSONSchemaProps, field string) string {
	for _, rule := range s.XValidations {
		if found := matches.FindStringSubmatch(rule.Rule); found != nil {
			limit := int64(63)
			return m.text(&apiextensionsv1.JSONSchemaProps{
				Pattern: strings.ReplaceAll(found[1], `\\`, `\`), MaxLength: &limit,
			}, "")
		}
	}
	if (field == "limits" || field == "requests") && m.chance(0.8) {
		return one(m.Rand, []string{
			"cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "example.com/gpu", "pods", "storage",
		})
	}
	return m.text(&apiextensionsv1.JSONSchemaProps{}, "")
}
