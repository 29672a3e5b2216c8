package postgresql

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
)

// maxIdentifier is NAMEDATALEN - 1, in bytes: the server would cut off what is longer.
const maxIdentifier = 63

// Identifier quotes a name for SQL. It refuses what PostgreSQL would change or not
// take: an empty name, one over 63 bytes, with a NUL, or not in UTF-8.
func Identifier(name string) (string, error) {
	switch {
	case name == "":
		return "", fmt.Errorf("a name is empty")
	case len(name) > maxIdentifier:
		return "", fmt.Errorf("the name %q has %d bytes; PostgreSQL takes %d at most", name, len(name), maxIdentifier)
	case strings.ContainsRune(name, 0):
		return "", fmt.Errorf("the name %q has a NUL", name)
	case !utf8.ValidString(name):
		return "", fmt.Errorf("the name %q is not in UTF-8", name)
	}
	return pgx.Identifier{name}.Sanitize(), nil
}

// literal quotes a string that is made here, of letters, digits and punctuation but
// backslashes: a mark, or a verifier. Sessions have standard_conforming_strings on.
func literal(text string) string {
	return "'" + strings.ReplaceAll(text, "'", "''") + "'"
}
