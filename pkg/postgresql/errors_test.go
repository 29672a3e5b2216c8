package postgresql

import (
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

func TestAcceptsPasswordOnlyAfterItWasChecked(t *testing.T) {
	for name, c := range map[string]struct {
		err      pgconn.PgError
		accepted bool
	}{
		"a server without a free connection": {pgconn.PgError{Code: "53300"}, true},
		"a role without the privilege CONNECT": {
			pgconn.PgError{Code: "42501", Routine: "CheckMyDatabase"}, true,
		},
		"a role with a library that does not exist": {
			pgconn.PgError{Code: "58P01", Routine: "internal_load_library"}, true,
		},
		"a role with a library that it may not load": {
			pgconn.PgError{Code: "42501", Routine: "check_restricted_library_name"}, true,
		},
		"a server whose volume is read-only":  {pgconn.PgError{Code: "42501", Routine: "mdopenfork"}, false},
		"a server whose files are missing":    {pgconn.PgError{Code: "58P01", Routine: "mdopenfork"}, false},
		"a server that rejects the password":  {pgconn.PgError{Code: "28P01", Routine: "auth_failed"}, false},
		"a proxy that names no function":      {pgconn.PgError{Code: "42501"}, false},
		"a server whose volume is full":       {pgconn.PgError{Code: "53100", Routine: "mdextend"}, false},
		"a server with a damaged system page": {pgconn.PgError{Code: "XX001", Routine: "PageIsVerified"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := acceptsPassword(hearing{}.reported(&c.err)); got != c.accepted {
				t.Errorf("acceptsPassword returns %t, want %t", got, c.accepted)
			}
		})
	}
}
