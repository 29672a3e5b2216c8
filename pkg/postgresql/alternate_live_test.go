//go:build integration

package postgresql_test

import (
	"testing"
)

func TestUpdateRepairsDriftOfAlternateLogin(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sql    []string
		former bool // the drift concerns the owner, which must not log in
	}{
		"it may not log in":                  {sql: []string{"ALTER ROLE @alternate NOLOGIN"}},
		"it has another password":            {sql: []string{"ALTER ROLE @alternate PASSWORD 'theirs'"}},
		"it has no password":                 {sql: []string{"ALTER ROLE @alternate PASSWORD NULL"}},
		"it has expired":                     {sql: []string{"ALTER ROLE @alternate VALID UNTIL '2001-01-01'"}},
		"it has more rights":                 {sql: []string{"ALTER ROLE @alternate CREATEROLE CREATEDB"}},
		"it does not inherit":                {sql: []string{"ALTER ROLE @alternate NOINHERIT"}},
		"it is no member of the owner":       {sql: []string{"REVOKE @owner FROM @alternate"}},
		"it does not act as the owner":       {sql: []string{"ALTER ROLE @alternate RESET role"}},
		"it acts for itself in the database": {sql: []string{"ALTER ROLE @alternate IN DATABASE @database SET role = 'none'"}},
		"it has lost its mark":               {sql: []string{"COMMENT ON ROLE @alternate IS NULL"}},
		"it was dropped":                     {sql: []string{"DROP ROLE @alternate"}},
		"the former login can log in":        {sql: []string{"ALTER ROLE @owner LOGIN PASSWORD 'theirs'"}, former: true},
		"the owner has more rights":          {sql: []string{"ALTER ROLE @owner CREATEDB"}},
	} {
		for who, as := range administrators(t) {
			t.Run(name+", by "+who, func(t *testing.T) {
				t.Parallel()
				w := create(t, as, rotating())
				w = rotate(t, as, w, 1)
				retire(t, as, w)
				hasFormer(t, as, w, false)
				for _, sql := range c.sql {
					do(t, "postgres", replaced(sql, w))
				}
				server := open(t, as)
				found, err := server.Exists(t.Context(), w)
				if err != nil || found.Current == !c.former || (found.Former != "") != c.former {
					t.Fatalf("after the change: %+v, %v", found, err)
				}
				if err := server.Update(t.Context(), w); err != nil {
					t.Fatalf("updating: %v", err)
				}
				if err := server.Retire(t.Context(), w); err != nil {
					t.Fatalf("retiring: %v", err)
				}
				hasFormer(t, as, w, false)
				use(t, w, "CREATE TABLE after_drift (id int)")
				if owner := ask(t, w.Database, "select pg_get_userbyid(relowner) from pg_class where relname = 'after_drift'"); owner != w.Owner {
					t.Errorf("the table belongs to %s", owner)
				}
			})
		}
	}
}

// TestRetiredLoginCannotReturn has a client with a session as the former login. It gives itself and the owner another
// password, and creates objects as its alternate login.
func TestRetiredLoginCannotReturn(t *testing.T) {
	t.Parallel()
	for name, as := range administrators(t) {
		t.Run(name, func(t *testing.T) {
			w := create(t, as, rotating())
			for generation := 1; generation <= 3; generation++ { // the former login is the owner, then each alternate login
				was := w
				w = rotate(t, as, w, generation)
				forged := was
				forged.Password = "of-the-attacker"
				conn, err := logIn(t.Context(), was)
				if err != nil {
					t.Fatal(err)
				}
				for _, sql := range []string{"ALTER ROLE " + quoted(was.Owner) + " PASSWORD '" + forged.Password + "'", "RESET ROLE", "SET ROLE NONE", "ALTER ROLE " + quoted(was.Login) + " PASSWORD '" + forged.Password + "'", "CREATE SCHEMA mine AUTHORIZATION " + quoted(was.Login)} {
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
				hasFormer(t, as, w, false)
				if owner := ask(t, w.Database, "select pg_get_userbyid(nspowner) from pg_namespace where nspname = 'mine'"); owner != w.Owner {
					t.Errorf("the schema belongs to %s", owner)
				}
				use(t, w, "DROP SCHEMA mine")
			}
		})
	}
}

func TestExtensionBelongsToOwnerWhicheverLoginCreatesIt(t *testing.T) {
	t.Parallel()
	for name, as := range administrators(t) {
		t.Run(name, func(t *testing.T) {
			w := rotate(t, as, create(t, as, rotating()), 1)
			w.Extensions = []string{"citext"}
			if err := open(t, as).Update(t.Context(), w); err != nil {
				t.Fatal(err)
			}
			hasFormer(t, as, w, true)
			if owner := ask(t, w.Database, "select pg_get_userbyid(extowner) from pg_extension where extname = 'citext'"); owner != w.Owner {
				t.Errorf("the extension belongs to %s", owner)
			}
		})
	}
}

// TestObjectsOfAlternateLoginAreGivenToOwner has clients that do not act as the owner. DISCARD ALL can have this effect,
// depending on the version of PostgreSQL.
func TestObjectsOfAlternateLoginAreGivenToOwner(t *testing.T) {
	t.Parallel()
	const owner = "select coalesce(string_agg(distinct pg_get_userbyid(relowner), ' '), '') from pg_class where relname ~ '^reset'"
	for name, as := range administrators(t) {
		t.Run(name, func(t *testing.T) {
			w := rotate(t, as, create(t, as, rotating()), 1)
			retire(t, as, w)
			use(t, w, "GRANT CREATE ON SCHEMA public TO "+quoted(w.Login), "DISCARD ALL", "SET ROLE NONE", "CREATE TABLE reset_1 (id int)")
			if found, err := open(t, as).Exists(t.Context(), w); err != nil || found.Current {
				t.Errorf("the objects are no drift: %+v, %v", found, err)
			}
			if err := open(t, as).Update(t.Context(), w); err != nil {
				t.Fatal(err)
			}
			hasFormer(t, as, w, false)
			if got := ask(t, w.Database, owner); got != w.Owner {
				t.Errorf("after an update, the objects belong to %s", got)
			}
			use(t, w, "DISCARD ALL", "SET ROLE NONE", "CREATE TABLE reset_2 (id int)")
			next := rotate(t, as, w, 2)
			retire(t, as, next)
			if got := ask(t, w.Database, owner); got != w.Owner {
				t.Errorf("after a rotation, the objects belong to %s", got)
			}
			use(t, next, "DROP TABLE reset_1, reset_2")
		})
	}
}

// TestLeftoversDoNotBlockRotations has entries that name an alternate login, and that REASSIGN OWNED leaves in place.
func TestLeftoversDoNotBlockRotations(t *testing.T) {
	t.Parallel()
	for name, as := range administrators(t) {
		t.Run(name, func(t *testing.T) {
			w := rotate(t, as, create(t, as, rotating()), 1)
			use(t, w, "SET ROLE NONE", "ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO PUBLIC")
			retire(t, as, w)
			hasFormer(t, as, w, false)
			w = rotate(t, as, w, 2)
			retire(t, as, w)
			hasFormer(t, as, w, false)
			if err := open(t, as).Delete(t.Context(), w); err != nil {
				t.Errorf("deleting: %v", err)
			}
		})
	}
}
