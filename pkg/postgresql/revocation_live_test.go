//go:build integration

package postgresql_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"windlass.dev/windlass/pkg/postgresql"
	"windlass.dev/windlass/test/postgres"
)

// revokes rotates to the next login, retires the leaked login, and returns the desired state with the next login. It
// fails the test if the user of the leaked login has blocked the rotation or the retirement.
func revokes(t *testing.T, as postgresql.Settings, leaked postgresql.Want, generation int) postgresql.Want {
	t.Helper()
	next := turned(leaked, generation)
	during(t, as, func(server *postgresql.Server) {
		if _, err := server.Exists(t.Context(), leaked); err != nil {
			t.Errorf("before the rotation: %v", err)
		}
		if err := server.Rotate(t.Context(), next); err != nil && postgresql.ClassOf(err) != postgresql.Unproven {
			t.Fatalf("rotating: %v", err)
		}
	})
	during(t, as, func(server *postgresql.Server) {
		if found, err := server.Exists(t.Context(), next); err != nil || found.Previous != leaked.Login {
			t.Errorf("after the rotation: %+v, %v", found, err)
		}
		if err := server.Retire(t.Context(), next); err != nil {
			t.Fatalf("retiring: %v", err)
		}
	})
	return next
}

// during calls reconcile with a new Server, and closes the Server.
func during(t *testing.T, as postgresql.Settings, reconcile func(*postgresql.Server)) {
	t.Helper()
	connector, err := postgresql.NewConnector(postgresql.Options{Allowed: here(t)})
	if err != nil {
		t.Fatal(err)
	}
	server := connector.Open("team", as)
	defer server.Close()
	reconcile(server)
}

// TestLeakedLoginCannotHoldUpItsRevocation has a user of the leaked login, who keeps a session open. The session does
// all that the login may do to block the operator.
func TestLeakedLoginCannotHoldUpItsRevocation(t *testing.T) {
	t.Parallel()
	for name, statements := range map[string][]string{
		"messages that fill the response": {
			"ALTER ROLE @owner SET debug_print_plan = on", "ALTER ROLE @owner SET debug_print_parse = on",
			"ALTER ROLE @owner SET client_min_messages = log", "ALTER DATABASE @database SET debug_print_plan = on",
			"ALTER DATABASE @database SET debug_print_parse = on", "ALTER DATABASE @database SET client_min_messages = debug5",
		},
		"a library that does not exist": {
			"ALTER ROLE @owner SET local_preload_libraries = 'missing'",
			"ALTER DATABASE @database SET local_preload_libraries = 'missing'",
		},
		"timeouts": {
			"ALTER ROLE @owner SET statement_timeout = 1", "ALTER DATABASE @database SET statement_timeout = 1",
			"ALTER DATABASE @database SET lock_timeout = 1", "ALTER DATABASE @database SET tcp_user_timeout = 1",
			"ALTER DATABASE @database SET idle_in_transaction_session_timeout = 1",
		},
		"read-only transactions": {
			"ALTER DATABASE @database SET default_transaction_read_only = on",
			"ALTER DATABASE @database SET default_transaction_isolation = serializable",
		},
		"another role": {
			"ALTER DATABASE @database SET role = @owner",
			"ALTER DATABASE @database SET session_authorization = @owner",
			"ALTER ROLE @owner SET role = @owner",
		},
		"no connections":        {"ALTER DATABASE @database CONNECTION LIMIT 0"},
		"no connections at all": {"ALTER DATABASE @database ALLOW_CONNECTIONS false"},
		"another mark":          {"COMMENT ON DATABASE @database IS 'windlass.dev/externaldatabase theirs/cart uid-2'"},
		"a lock on the role":    {"BEGIN", "ALTER ROLE @owner PASSWORD 'of-the-attacker'"},
		"a lock on the database": {
			"ALTER DATABASE @database ALLOW_CONNECTIONS false", "BEGIN",
			"GRANT CONNECT ON DATABASE @database TO PUBLIC",
			"ALTER DATABASE @database CONNECTION LIMIT 7",
		},
		"a lock on the mark": {"BEGIN", "COMMENT ON DATABASE @database IS 'mine'"},
	} {
		for who, as := range administrators(t) {
			t.Run(name+", "+who, func(t *testing.T) {
				t.Parallel()
				w := create(t, as, rotating())
				elsewhere := w
				elsewhere.Database = "postgres" // a session can forbid connections to every database except its own
				conn, err := logIn(t.Context(), elsewhere)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close(context.Background())
				for _, sql := range statements {
					if _, err := conn.Exec(t.Context(), replaced(sql, w)); err != nil {
						t.Fatalf("%s: %v", sql, err)
					}
				}
				next := revokes(t, as, w, 1)
				wantRevoked(t, conn, w)
				create(t, as, next)
				hasPrevious(t, as, next, false)
			})
		}
	}
}

// wantRevoked fails the test if the leaked login has a session, or can log in.
func wantRevoked(t *testing.T, session *pgx.Conn, leaked postgresql.Want) {
	t.Helper()
	if _, err := session.Exec(t.Context(), "select 1"); err == nil {
		t.Error("a session has survived")
	}
	const sqlOfLogin = "select count(*)::text from pg_roles where rolname = $1 and rolcanlogin"
	if logins := ask(t, "postgres", sqlOfLogin, leaked.Login); logins != "0" {
		t.Error("the role can still log in")
	}
	const sqlOfSessions = "select count(*)::text from pg_stat_activity where usename = $1"
	if sessions := ask(t, "postgres", sqlOfSessions, leaked.Login); sessions != "0" {
		t.Errorf("%s sessions have survived", sessions)
	}
}

// TestLeakedAlternateLoginCannotHoldUpItsRevocation has a user of an alternate login. The user locks a table of the
// login, and changes the settings of the login. Two rotations later, the login is in use again.
func TestLeakedAlternateLoginCannotHoldUpItsRevocation(t *testing.T) {
	t.Parallel()
	asAdministrators(t, func(t *testing.T, as postgresql.Settings) {
		w := rotate(t, as, create(t, as, rotating()), 1)
		retire(t, as, w)
		conn, err := logIn(t.Context(), w)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		for _, sql := range []string{
			"SET ROLE NONE", "CREATE SCHEMA mine AUTHORIZATION @alternate",
			"ALTER ROLE @alternate SET local_preload_libraries = 'missing'",
			"ALTER ROLE @alternate IN DATABASE @database SET role = 'none'",
			"CREATE TABLE mine.mine (id int)", "BEGIN", "LOCK TABLE mine.mine",
		} {
			if _, err := conn.Exec(t.Context(), replaced(sql, w)); err != nil {
				t.Fatalf("%s: %v", sql, err)
			}
		}
		next := revokes(t, as, w, 2)
		wantRevoked(t, conn, w)
		hasPrevious(t, as, next, false)
		const sqlOfOwner = "select pg_get_userbyid(relowner) from pg_class where relname = $1"
		if owner := ask(t, w.Database, sqlOfOwner, "mine"); owner != w.Owner {
			t.Errorf("the table belongs to %s", owner)
		}
		again := rotate(t, as, next, 3)
		retire(t, as, again)
		use(t, again, "CREATE TABLE after_all (id int)")
		if owner := ask(t, w.Database, sqlOfOwner, "after_all"); owner != w.Owner {
			t.Errorf("the table belongs to %s", owner)
		}
	})
}

// TestLeakedLoginCannotUseUpItsRevocation has a user who opens as many connections as the server allows to users.
func TestLeakedLoginCannotUseUpItsRevocation(t *testing.T) {
	t.Parallel()
	server, err := postgres.NewServer(t.Context(), "max_connections=16", "superuser_reserved_connections=6")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Remove)
	as := settings(server)
	w := rotating()
	during(t, as, func(server *postgresql.Server) {
		if w.ID, err = server.Ensure(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	})
	var last *pgx.Conn
	for {
		conn, err := logInTo(t.Context(), server, w)
		if err != nil {
			break
		}
		last = conn
		defer conn.Close(context.Background())
	}
	next := revokes(t, as, w, 1)
	if _, err := last.Exec(t.Context(), "select 1"); err == nil {
		t.Error("a session has survived")
	}
	hasPrevious(t, as, next, false)
}

// TestPreviousLoginRetiresAlthoughItsDatabaseIsGone has a user of the previous login with a session in another
// database, and drops the database of the login.
func TestPreviousLoginRetiresAlthoughItsDatabaseIsGone(t *testing.T) {
	t.Parallel()
	asAdministrators(t, func(t *testing.T, as postgresql.Settings) {
		w := create(t, as, rotating())
		next := rotate(t, as, w, 1)
		elsewhere := w
		elsewhere.Database = "postgres"
		conn, err := logIn(t.Context(), elsewhere)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		do(t, "postgres", "DROP DATABASE "+quoted(w.Database)+" WITH (FORCE)") // because sessions of this test are open
		if found, err := open(t, as).Exists(t.Context(), next); err != nil || found.ID != "" || found.Previous != w.Login {
			t.Errorf("after the database was dropped: %+v, %v", found, err)
		}
		retire(t, as, next)
		wantRevoked(t, conn, w)
	})
}
