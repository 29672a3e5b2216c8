package postgresql

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
)

// maxIdentifier is NAMEDATALEN - 1, in bytes. The server truncates longer names.
const maxIdentifier = 63

// checkName returns an error for a name that PostgreSQL would change or reject.
func checkName(name string) error {
	if name == "" || len(name) > maxIdentifier || strings.ContainsRune(name, 0) || !utf8.ValidString(name) {
		return fmt.Errorf("the name %q of a role, a database or an extension is not UTF-8 of 1 to %d bytes without a NUL "+
			"character", name, maxIdentifier)
	}
	return nil
}

// quoted returns a name as a quoted identifier of SQL. checkName must accept the name.
func quoted(name string) string { return pgx.Identifier{name}.Sanitize() }

// parts are statements of one transaction, or attributes of a role.
type parts []string

// add adds a part if wrong is true.
func (p *parts) add(wrong bool, part string) {
	if wrong {
		*p = append(*p, part)
	}
}

// sql returns the statements as one text of SQL.
func (p parts) sql() string { return strings.Join(p, "; ") }

// literal returns a text as a string literal of SQL. It need not escape backslashes, because sessions set
// standard_conforming_strings to on.
func literal(text string) string {
	return "'" + strings.ReplaceAll(text, "'", "''") + "'"
}
