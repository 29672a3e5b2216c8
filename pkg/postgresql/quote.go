package postgresql

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
)

// maxIdentifier is NAMEDATALEN - 1, in bytes. The server truncates longer names.
const maxIdentifier = 63

// Identifier quotes a name for SQL. It returns an error for a name that PostgreSQL would change or refuse: a
// name that is empty, has more than 63 bytes, contains a NUL, or is not valid UTF-8.
func Identifier(name string) (string, error) {
	switch {
	case name == "":
		return "", fmt.Errorf("the name of a role, a database or an extension is empty")
	case len(name) > maxIdentifier:
		return "", fmt.Errorf("the name %q has %d bytes, but PostgreSQL accepts at most %d", name, len(name), maxIdentifier)
	case strings.ContainsRune(name, 0):
		return "", fmt.Errorf("the name %q contains a NUL character", name)
	case !utf8.ValidString(name):
		return "", fmt.Errorf("the name %q is not valid UTF-8", name)
	}
	return pgx.Identifier{name}.Sanitize(), nil
}

// quotedRole quotes the name of a role that newChange has checked.
func quotedRole(name string) string { return pgx.Identifier{name}.Sanitize() }

// literal quotes a mark or a verifier for SQL. It need not escape backslashes: marks and verifiers have
// none, and sessions set standard_conforming_strings to on.
func literal(text string) string {
	return "'" + strings.ReplaceAll(text, "'", "''") + "'"
}
