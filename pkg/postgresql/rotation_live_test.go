//go:build integration

package postgresql_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"windlass.dev/windlass/pkg/postgresql"
)

// rotating returns the desired state of a new role and database whose owner has an alternate login.
func rotating() postgresql.Want {
	w := newWant()
	w.Alternate, w.Login = w.Owner+"_alt", w.Owner
	return w
}

// turned returns w with the other login and the password of a generation.
func turned(w postgresql.Want, generation int) postgresql.Want {
	if w.Login == w.Owner {
		w.Login = w.Alternate
	} else {
		w.Login = w.Owner
	}
	w.Password = fmt.Sprintf("canary-%s-%d", w.Database, generation)
	return w
}

// logIn logs in as a client does.
func logIn(ctx context.Context, w postgresql.Want) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig("sslmode=disable connect_timeout=10")
	if err != nil {
		return nil, err
	}
	s := settings(shared)
	config.Host, config.Port, config.User, config.Password, config.Database = s.Host, s.Port, w.Login, w.Password, w.Database
	config.DialFunc = (&net.Dialer{}).DialContext
	return pgx.ConnectConfig(ctx, config)
}

// use logs in as w and executes statements. It fails the test if one fails.
func use(t *testing.T, w postgresql.Want, statements ...string) {
	t.Helper()
	conn, err := logIn(t.Context(), w)
	if err != nil {
		t.Fatalf("logging in as %q: %v", w.Login, err)
	}
	defer conn.Close(context.Background())
	for _, sql := range statements {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s as %q: %v", sql, w.Login, err)
		}
	}
}

// client logs in again and again as one generation, and inserts a row each time, until stop is called.
type client struct {
	logins, failures atomic.Int32
	first            atomic.Pointer[error]
	stop             func()
}

func startClient(ctx context.Context, w postgresql.Want) *client {
	ctx, cancel := context.WithCancel(ctx)
	c, done, stopping := &client{}, make(chan struct{}), &atomic.Bool{}
	c.stop = func() {
		stopping.Store(true)
		<-done
		cancel()
	}
	go func() {
		defer close(done)
		for !stopping.Load() {
			c.logins.Add(1)
			if err := insert(ctx, w); err != nil {
				c.failures.Add(1)
				c.first.CompareAndSwap(nil, &err)
			}
		}
	}()
	return c
}

func insert(ctx context.Context, w postgresql.Want) error {
	conn, err := logIn(ctx, w)
	if err != nil {
		return err
	}
	defer conn.Close(context.Background())
	_, err = conn.Exec(ctx, "INSERT INTO rows VALUES (default)")
	return err
}

// worked fails the test if the client has not logged in, or if a login or an INSERT failed.
func (c *client) worked(t *testing.T, who string) (rows int32) {
	t.Helper()
	if err := c.first.Load(); err != nil {
		t.Errorf("%d of %d logins of %s failed: %v", c.failures.Load(), c.logins.Load(), who, *err)
	}
	if c.logins.Load() == 0 {
		t.Errorf("%s did not log in", who)
	}
	return c.logins.Load()
}

// rotate moves from w to the next generation, and returns it.
func rotate(t *testing.T, as postgresql.Settings, w postgresql.Want, generation int) postgresql.Want {
	t.Helper()
	next := turned(w, generation)
	if err := open(t, as).Rotate(t.Context(), next); err != nil {
		t.Fatalf("rotation %d: %v", generation, err)
	}
	return next
}

func retire(t *testing.T, as postgresql.Settings, w postgresql.Want) {
	t.Helper()
	if err := open(t, as).Retire(t.Context(), w); err != nil {
		t.Fatalf("retiring the former login of %q: %v", w.Login, err)
	}
}

// hasFormer fails the test unless Exists finds the desired state, and a former login or none.
func hasFormer(t *testing.T, as postgresql.Settings, w postgresql.Want, former bool) {
	t.Helper()
	found, err := open(t, as).Exists(t.Context(), w)
	if err != nil || !found.Current || found.Former != former {
		t.Errorf("wanted the desired state and former login %t, found %+v, %v", former, found, err)
	}
}

// replaced replaces the names in a statement.
func replaced(sql string, w postgresql.Want) string {
	return strings.NewReplacer("@database", quoted(w.Database), "@owner", quoted(w.Owner), "@alternate", quoted(w.Alternate)).Replace(sql)
}

const sqlOfLogins = "select count(*)::text from pg_roles where rolname in ($1, $2) and rolcanlogin"

func TestRotationFailsNoLogin(t *testing.T) {
	t.Parallel()
	for name, as := range administrators(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := create(t, as, rotating())
			use(t, w, "CREATE TABLE rows (id serial)", "CREATE TABLE of_generation_0 (id int)")
			current, rows := startClient(t.Context(), w), int32(0)
			for generation := 1; generation <= 6; generation++ {
				former, was := current, w
				w = rotate(t, as, w, generation)
				current = startClient(t.Context(), w)
				use(t, w, fmt.Sprintf("CREATE TABLE of_generation_%d (id int)", generation))
				use(t, was, fmt.Sprintf("CREATE TABLE of_former_%d (id int)", generation))
				hasFormer(t, as, w, true)
				if logins := ask(t, "postgres", sqlOfLogins, w.Owner, w.Alternate); logins != "2" {
					t.Errorf("in rotation %d, %s roles can log in", generation, logins)
				}
				former.stop()
				rows += former.worked(t, fmt.Sprintf("generation %d", generation-1))
				idle, err := logIn(t.Context(), was)
				if err != nil {
					t.Fatal(err)
				}
				retire(t, as, w)
				hasFormer(t, as, w, false)
				if _, err := idle.Exec(t.Context(), "select 1"); err == nil {
					t.Errorf("a session of %q has survived", was.Login)
				}
				if conn, err := logIn(t.Context(), was); err == nil {
					_ = conn.Close(t.Context())
					t.Errorf("%q can still log in", was.Login)
				}
				if logins := ask(t, "postgres", sqlOfLogins, w.Owner, w.Alternate); logins != "1" {
					t.Errorf("after rotation %d, %s roles can log in", generation, logins)
				}
			}
			current.stop()
			rows += current.worked(t, "the last generation")
			if found := ask(t, w.Database, "select count(*)::text from rows"); found != fmt.Sprint(rows) {
				t.Errorf("wanted %d rows, found %s", rows, found)
			}
			if others := ask(t, w.Database, "select count(*)::text from pg_class where relname ~ '^(rows|of_)' and relowner <> (select oid from pg_roles where rolname = $1)", w.Owner); others != "0" {
				t.Errorf("%s tables belong to others than the owner", others)
			}
			if err := open(t, as).Delete(t.Context(), w); err != nil {
				t.Fatalf("deleting: %v", err)
			}
			if left := ask(t, "postgres", "select count(*)::text from pg_roles where rolname in ($1, $2)", w.Owner, w.Alternate); left != "0" {
				t.Errorf("%s roles are left", left)
			}
		})
	}
}

func TestRotationLeavesTakenRole(t *testing.T) {
	t.Parallel()
	for name, as := range administrators(t) {
		t.Run(name, func(t *testing.T) {
			w := create(t, as, rotating())
			do(t, "postgres", "CREATE ROLE "+quoted(w.Alternate)+" LOGIN PASSWORD 'theirs'")
			sql := "select (r.*)::text || coalesce((select rolpassword from pg_authid a where a.oid = r.oid), '') || coalesce((select string_agg(roleid::text, ' ') from pg_auth_members where member = r.oid), '') from pg_roles r where rolname = $1"
			before := ask(t, "postgres", sql, w.Alternate)
			err := open(t, as).Rotate(t.Context(), turned(w, 1))
			if postgresql.ClassOf(err) != postgresql.Taken {
				t.Errorf("the error is %v", err)
			}
			retire(t, as, w)
			hasFormer(t, as, w, false)
			if err := open(t, as).Delete(t.Context(), w); err != nil {
				t.Errorf("deleting: %v", err)
			}
			if after := ask(t, "postgres", sql, w.Alternate); after != before {
				t.Errorf("the role has changed from %s to %s", before, after)
			}
		})
	}
}

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
				if err != nil || found.Current == !c.former || found.Former != c.former {
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

// TestRetiredLoginCannotReturn has a client with a session as the former login, which gives itself another password and
// creates objects as its alternate login.
func TestRetiredLoginCannotReturn(t *testing.T) {
	t.Parallel()
	for name, as := range administrators(t) {
		t.Run(name, func(t *testing.T) {
			w := create(t, as, rotating())
			for generation := 1; generation <= 2; generation++ { // the former login is the owner, then its alternate login
				was := w
				w = rotate(t, as, w, generation)
				forged := was
				forged.Password = "of-the-attacker"
				conn, err := logIn(t.Context(), was)
				if err != nil {
					t.Fatal(err)
				}
				for _, sql := range []string{"RESET ROLE", "SET ROLE NONE", "ALTER ROLE " + quoted(was.Login) + " PASSWORD '" + forged.Password + "'", "CREATE SCHEMA mine AUTHORIZATION " + quoted(was.Login)} {
					if _, err := conn.Exec(t.Context(), sql); err != nil {
						t.Fatalf("%s: %v", sql, err)
					}
				}
				use(t, forged)
				retire(t, as, w)
				if _, err := conn.Exec(t.Context(), "select 1"); err == nil {
					t.Error("the session has survived")
				}
				if again, err := logIn(t.Context(), forged); err == nil {
					_ = again.Close(t.Context())
					t.Errorf("%q can still log in", forged.Login)
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
