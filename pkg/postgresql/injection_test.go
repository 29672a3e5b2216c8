//go:build integration

package postgresql_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"windlass.dev/windlass/pkg/postgresql"
)

// pieces are fragments of names that an attacker may try.
var pieces = []string{
	`"`, `""`, `'`, `\`, `\"`, ";", "--", "/*", "*/", "$$", "$1", "%", "_", "(", ")", " ", "\t", "\n", "\r", "\x00",
	"\x7f", "\xff", "\xc0\xa7", "\xed\xa0\x80",
	"а", "＂", "ʺ", "ˮ", "′", "‘", "’", "＇", "\u200b", "\u202e", "\ufeff", "ﬀ", "É", "E\u0301", "🐘", "SELECT", "user",
	"public", "none", "postgres", "pg_", "CURRENT_USER",
	"a", "B", "0", "-", ".", "DROP DATABASE", `"; DROP ROLE "`, "U&", `\0041`, "E'", strings.Repeat("x", 61),
	strings.Repeat("é", 31),
}

// name returns a random name of up to 8 pieces.
func name(random *rand.Rand) string {
	var text strings.Builder
	for range random.IntN(9) {
		text.WriteString(pieces[random.IntN(len(pieces))])
	}
	return text.String()
}

// TestIdentifierQuotesEveryName sends 10,000 names to the server as the name of a column, which the response must
// repeat.
func TestIdentifierQuotesEveryName(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	conn, err := shared.Connect(t.Context(), "postgres")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for sent := 0; sent < 10_000; {
		want := name(random)
		quoted, err := postgresql.Identifier(want)
		if err != nil {
			continue
		}
		sent++
		result := conn.PgConn().Exec(t.Context(), "SELECT 1 AS "+quoted)
		if !result.NextResult() {
			t.Fatalf("%q is not taken: %v", want, result.Close())
		}
		if fields := result.ResultReader().FieldDescriptions(); len(fields) != 1 || fields[0].Name != want {
			t.Fatalf("%q is %q to the server", want, fields[0].Name)
		}
		if result.ResultReader().Read(); result.NextResult() {
			t.Fatalf("%q is more than one statement", want)
		}
		if err := result.Close(); err != nil {
			t.Fatalf("%q: %v", want, err)
		}
	}
}

func TestIdentifierRejectsInvalidNames(t *testing.T) {
	for about, name := range map[string]string{
		"nothing": "", "64 bytes": strings.Repeat("x", 64), "64 bytes in 32 characters": strings.Repeat("é", 32),
		"a NUL": "a\x00b", "invalid UTF-8": "a\xff", "an overlong quote": "\xc0\xa2", "a surrogate": "\xed\xa0\x80",
	} {
		if quoted, err := postgresql.Identifier(name); err == nil {
			t.Errorf("%s is taken, as %s", about, quoted)
		}
	}
}

// TestServerAcceptsUnusualNames creates, checks and deletes databases with unusual names.
func TestServerAcceptsUnusualNames(t *testing.T) {
	t.Parallel()
	for _, odd := range []string{
		`a"; DROP DATABASE postgres; --`, `back\slash`, `quo'te`, "user", "select", "раypal", "paypal", "＂",
		"tab\tbreak\n", " ", strings.Repeat("é", 31), "🐘", "%", "a=b host=c", "$1",
	} {
		for who, as := range administrators(t) {
			w := newWant()
			w.Database, w.Owner = odd, odd+"."
			w.Extensions = []string{"citext"}
			w = create(t, as, w)
			isCurrent(t, as, w)
			if err := open(t, as).Delete(t.Context(), w); err != nil {
				t.Errorf("deleting %q as %s: %v", odd, who, err)
			}
		}
	}
}
