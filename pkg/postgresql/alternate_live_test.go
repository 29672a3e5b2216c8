//go:build integration

package postgresql_test

import (
	"testing"

	"windlass.dev/windlass/pkg/postgresql"
)

// TestRetiredLoginCannotReturn has a client with a session of the previous login. The client changes the passwords of
// this login and of the owner, and creates a schema that this login owns.
func TestRetiredLoginCannotReturn(t *testing.T) {
	t.Parallel()
	asAdministrators(t, func(t *testing.T, as postgresql.Settings) {
		w := create(t, as, rotating())
		for generation := 1; generation <= 3; generation++ { // the previous login is the owner, then each alternate login
			was := w
			w = rotate(t, as, w, generation)
			forged := was
			forged.Password = "of-the-attacker"
			conn, err := logIn(t.Context(), was)
			if err != nil {
				t.Fatal(err)
			}
			for _, sql := range []string{
				"ALTER ROLE " + quoted(was.Owner) + " PASSWORD '" + forged.Password + "'", "RESET ROLE",
				"SET ROLE NONE", "ALTER ROLE " + quoted(was.Login) + " PASSWORD '" + forged.Password + "'",
				"CREATE SCHEMA mine AUTHORIZATION " + quoted(was.Login),
			} {
				if _, err := conn.Exec(t.Context(), sql); err != nil {
					t.Fatalf("%s: %v", sql, err)
				}
			}
			use(t, forged)
			retire(t, as, w)
			if _, err := conn.Exec(t.Context(), "select 1"); err == nil {
				t.Error("the session has survived")
			}
			for _, forged.Login = range append([]string{was.Owner}, was.Alternates...) {
				if canLogIn(t.Context(), forged) {
					t.Errorf("%q can still log in after rotation %d", forged.Login, generation)
				}
			}
			hasPrevious(t, as, w, false)
			owner := ask(t, w.Database, "select pg_get_userbyid(nspowner) from pg_namespace where nspname = 'mine'")
			if owner != w.Owner {
				t.Errorf("the schema belongs to %s", owner)
			}
			use(t, w, "DROP SCHEMA mine")
		}
	})
}

// TestObjectsOfAlternateLoginAreGivenToOwner has a client that creates a table while its session does not act as the
// owner. In some versions of PostgreSQL, DISCARD ALL has this effect.
func TestObjectsOfAlternateLoginAreGivenToOwner(t *testing.T) {
	t.Parallel()
	const owner = "select coalesce(string_agg(distinct pg_get_userbyid(relowner), ' '), '') from pg_class where " +
		"relname ~ '^reset'"
	asAdministrators(t, func(t *testing.T, as postgresql.Settings) {
		w := rotate(t, as, create(t, as, rotating()), 1)
		retire(t, as, w)
		use(t, w, "GRANT CREATE ON SCHEMA public TO "+quoted(w.Login), "DISCARD ALL", "SET ROLE NONE",
			"CREATE TABLE reset_1 (id int)")
		if found, err := open(t, as).Exists(t.Context(), w); err != nil || found.Current {
			t.Errorf("the objects are no drift: %+v, %v", found, err)
		}
		create(t, as, w)
		hasPrevious(t, as, w, false)
		if got := ask(t, w.Database, owner); got != w.Owner {
			t.Errorf("after an update, the objects belong to %s", got)
		}
	})
}

// TestLeftoversDoNotBlockRotations changes the default privileges of an alternate login. REASSIGN OWNED does not remove
// them.
func TestLeftoversDoNotBlockRotations(t *testing.T) {
	t.Parallel()
	asAdministrators(t, func(t *testing.T, as postgresql.Settings) {
		w := rotate(t, as, create(t, as, rotating()), 1)
		use(t, w, "SET ROLE NONE", "ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO PUBLIC")
		retire(t, as, w)
		hasPrevious(t, as, w, false)
		w = rotate(t, as, w, 2)
		retire(t, as, w)
		hasPrevious(t, as, w, false)
		if err := open(t, as).Delete(t.Context(), w); err != nil {
			t.Errorf("deleting: %v", err)
		}
	})
}
