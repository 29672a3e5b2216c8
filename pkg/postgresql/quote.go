package postgresql

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
)

// maxIdentifier is NAMEDATALEN - 1, in bytes. The server truncates longer names.
const maxIdentifier = 63

// Identifier quotes a name for SQL. It returns an error for a name that PostgreSQL would change or refuse: an
// empty name, a name longer than 63 bytes, with a NUL, or not in UTF-8.
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

// literal quotes a mark or a verifier for SQL. Neither has backslashes, and sessions have
// standard_conforming_strings on.
func literal(text string) string {
	return "'" + strings.ReplaceAll(text, "'", "''") + "'"
}
