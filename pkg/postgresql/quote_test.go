package postgresql

import (
	"strings"
	"testing"
)

func TestNamesThatPostgreSQLWouldChangeAreRejected(t *testing.T) {
	for about, name := range map[string]string{
		"nothing": "", "64 bytes": strings.Repeat("x", 64), "64 bytes in 32 characters": strings.Repeat("é", 32),
		"a NUL": "a\x00b", "invalid UTF-8": "a\xff", "an overlong quote": "\xc0\xa2", "a surrogate": "\xed\xa0\x80",
	} {
		for field, w := range map[string]Want{
			"owner": {Owner: name, Database: "shop"}, "database": {Owner: "clerk", Database: name},
			"alternate login": {Owner: "clerk", Database: "shop", Alternates: []string{name}},
		} {
			if _, err := new(session).look(t.Context(), w); err == nil {
				t.Errorf("%s is accepted as %s", about, field)
			}
		}
	}
}
