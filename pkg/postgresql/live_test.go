//go:build integration

package postgresql_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"windlass.dev/windlass/pkg/postgresql"
	"windlass.dev/windlass/test/postgres"
)

// shared is a server for all tests that do not harm it.
var shared *postgres.Server

func TestMain(m *testing.M) {
	code, err := withServer(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func withServer(m *testing.M) (int, error) {
	var err error
	// No administrator without SUPERUSER can end a process of autovacuum, so a database in which one runs cannot be
	// deleted at this moment. The operator tries again; these tests do not.
	if shared, err = postgres.NewServer(context.Background(), "autovacuum=off"); err != nil {
		return 1, err
	}
	defer shared.Remove()
	return m.Run(), nil
}

// settings returns the Settings with which the superuser connects to a server.
func settings(s *postgres.Server) postgresql.Settings {
	port, _ := strconv.ParseUint(s.Port, 10, 16) // Port is always a number
	return postgresql.Settings{
		Host: "127.0.0.1", Port: uint16(port), Username: "postgres", Password: s.Password, Database: "postgres",
		Mode: postgresql.Disable,
	}
}

var wants atomic.Int32

// newWant returns the desired state of a role and a database that no other test uses.
func newWant() postgresql.Want {
	name := fmt.Sprintf("shop-%d", wants.Add(1))
	return postgresql.Want{
		Mark:     postgresql.Mark{Namespace: "team", Name: name, UID: "uid-of-" + name},
		Database: name, Owner: name + "-owner", Password: "canary-" + name,
	}
}

// open returns a Server for one reconcile. The Server is closed when the test ends.
func open(t *testing.T, as postgresql.Settings) *postgresql.Server {
	t.Helper()
	return openWith(t, as, postgresql.Options{
		Allowed: here(t), UntrustedExtensions: []string{"pageinspect", "earthdistance"},
	})
}

// here returns AllowedHosts that allow servers on this machine.
func here(t *testing.T) postgresql.AllowedHosts {
	t.Helper()
	allowed, err := postgresql.ParseAllowedHosts([]string{"127.0.0.0/8", "::1"})
	if err != nil {
		t.Fatal(err)
	}
	return allowed
}

func openWith(t *testing.T, as postgresql.Settings, options postgresql.Options) *postgresql.Server {
	t.Helper()
	connector, err := postgresql.NewConnector(options)
	if err != nil {
		t.Fatal(err)
	}
	server := connector.Open("team", as)
	t.Cleanup(server.Close)
	return server
}

// create creates or updates the role and the database, and returns w with the ID.
func create(t *testing.T, as postgresql.Settings, w postgresql.Want) postgresql.Want {
	t.Helper()
	id, err := open(t, as).Ensure(t.Context(), w)
	if err != nil {
		t.Fatalf("creating or updating: %v", err)
	}
	w.ID = id
	return w
}

// isCurrent fails the test unless Exists finds the desired state.
func isCurrent(t *testing.T, as postgresql.Settings, w postgresql.Want) {
	t.Helper()
	found, err := open(t, as).Exists(t.Context(), w)
	if err != nil || !found.Current || found.ID != w.ID {
		t.Errorf("wanted %s to be as wanted, found %+v, %v", w.ID, found, err)
	}
}

// do executes statements in a database, as the superuser.
func do(t *testing.T, database string, statements ...string) {
	t.Helper()
	conn, err := shared.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for _, sql := range statements {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

// ask queries one value, as the superuser.
func ask(t *testing.T, database, sql string, args ...any) string {
	t.Helper()
	conn, err := shared.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var value any
	if err := conn.QueryRow(t.Context(), sql, args...).Scan(&value); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return fmt.Sprint(value)
}

func quoted(name string) string { return pgx.Identifier{name}.Sanitize() }

// superuser names the administrator with SUPERUSER in the names of tests.
const superuser = "a superuser"

// administrators returns the Settings of two administrators who can manage databases: a superuser, and a role
// with only the necessary attributes.
func administrators(t *testing.T) map[string]postgresql.Settings {
	t.Helper()
	limited := settings(shared)
	limited.Username, limited.Password = fmt.Sprintf("admin-%d", wants.Add(1)), "canary-of-the-admin"
	do(t, "postgres", "CREATE ROLE "+quoted(limited.Username)+" LOGIN CREATEROLE CREATEDB PASSWORD '"+limited.Password+"'")
	return map[string]postgresql.Settings{superuser: settings(shared), "CREATEROLE and CREATEDB": limited}
}

// asAdministrators runs a test as each of the administrators.
func asAdministrators(t *testing.T, test func(t *testing.T, as postgresql.Settings)) {
	t.Helper()
	for who, as := range administrators(t) {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			test(t, as)
		})
	}
}

// TestDatabaseLifecycle has databases with usual and unusual names.
func TestDatabaseLifecycle(t *testing.T) {
	t.Parallel()
	names := []string{
		newWant().Database, `a"; DROP DATABASE postgres; --`, `back\slash`, `quo'te`, "user", "select", "раypal", "paypal",
		"＂", "tab\tbreak\n", " ", strings.Repeat("é", 31), "🐘", "%", "a=b host=c", "$1",
	}
	for who, as := range administrators(t) {
		for _, name := range names {
			t.Run(name+", by "+who, func(t *testing.T) { liveAndDie(t, as, name) })
		}
	}
}

// liveAndDie creates, checks and deletes a database.
func liveAndDie(t *testing.T, as postgresql.Settings, name string) {
	t.Helper()
	w := newWant()
	w.Database, w.Owner = name, name+"."
	w.Extensions = []string{"pgcrypto", "citext"} // both extensions are trusted
	found, err := open(t, as).Exists(t.Context(), w)
	if err != nil || found != (postgresql.Found{}) {
		t.Fatalf("before it is made: %+v, %v", found, err)
	}
	w = create(t, as, w)
	isCurrent(t, as, w)
	has := ask(t, w.Database, "select string_agg(extname, ' ' order by extname) from pg_extension")
	if has != "citext pgcrypto plpgsql" {
		t.Errorf("extensions: %s", has)
	}
	if err := open(t, as).Delete(t.Context(), w); err != nil {
		t.Fatalf("deleting: %v", err)
	}
	left := ask(t, "postgres", "select (select count(*) from pg_database where datname = $1) + (select count(*) "+
		"from pg_roles where rolname = $2)", w.Database, w.Owner)
	if left != "0" {
		t.Errorf("left: %s", left)
	}
	if err := open(t, as).Delete(t.Context(), w); err != nil {
		t.Errorf("deleting again: %v", err)
	}
}

// TestUpdateRepairsDrift changes the roles and the database. After a rotation, an alternate login is in use.
func TestUpdateRepairsDrift(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in, sql  string
		by       string // the only administrator who can repair the drift
		rotated  bool
		previous bool // the drift concerns the owner, which must not log in
	}{
		"a role that may not log in":     {sql: "ALTER ROLE @owner NOLOGIN"},
		"a role with more attributes":    {sql: "ALTER ROLE @owner CREATEROLE CREATEDB"},
		"a database without connections": {sql: "ALTER DATABASE @database CONNECTION LIMIT 0"},
		"another mark on the database": {
			sql: "COMMENT ON DATABASE @database IS 'windlass.dev/externaldatabase theirs/cart uid-2'",
		},
		"a role that has expired":                 {sql: "ALTER ROLE @owner VALID UNTIL '2001-01-01'"},
		"another password":                        {sql: "ALTER ROLE @owner PASSWORD 'theirs'"},
		"no password":                             {sql: "ALTER ROLE @owner PASSWORD NULL"},
		"a role without its mark":                 {sql: "COMMENT ON ROLE @owner IS NULL"},
		"a database without its mark":             {sql: "COMMENT ON DATABASE @database IS 'the shop'"},
		"an extension that was dropped":           {in: "@", sql: "DROP EXTENSION pgcrypto"},
		"privileges of PUBLIC":                    {sql: "GRANT CONNECT, TEMPORARY ON DATABASE @database TO PUBLIC"},
		"privileges that the owner has lost":      {sql: "REVOKE CONNECT, CREATE ON DATABASE @database FROM @owner"},
		"a database that is a template":           {sql: "ALTER DATABASE @database IS_TEMPLATE true"},
		"a database that takes nobody":            {sql: "ALTER DATABASE @database ALLOW_CONNECTIONS false"},
		"a database of another owner's":           {by: superuser, sql: "ALTER DATABASE @database OWNER TO postgres"},
		"an untrusted extension is dropped":       {in: "@", by: superuser, sql: "DROP EXTENSION pageinspect"},
		"an alternate login may not log in":       {rotated: true, sql: "ALTER ROLE @alternate NOLOGIN"},
		"an alternate login has another password": {rotated: true, sql: "ALTER ROLE @alternate PASSWORD 'theirs'"},
		"an alternate login has no password":      {rotated: true, sql: "ALTER ROLE @alternate PASSWORD NULL"},
		"an alternate login has expired": {
			rotated: true, sql: "ALTER ROLE @alternate VALID UNTIL '2001-01-01'",
		},
		"an alternate login has more attributes":       {rotated: true, sql: "ALTER ROLE @alternate CREATEROLE CREATEDB"},
		"an alternate login does not inherit":          {rotated: true, sql: "ALTER ROLE @alternate NOINHERIT"},
		"an alternate login is no member of the owner": {rotated: true, sql: "REVOKE @owner FROM @alternate"},
		"an alternate login does not act as the owner": {rotated: true, sql: "ALTER ROLE @alternate RESET role"},
		"an alternate login acts for itself in the database": {
			rotated: true, sql: "ALTER ROLE @alternate IN DATABASE @database SET role = 'none'",
		},
		"an alternate login has lost its mark": {rotated: true, sql: "COMMENT ON ROLE @alternate IS NULL"},
		"an alternate login was dropped":       {rotated: true, sql: "DROP ROLE @alternate"},
		"the previous login can log in": {
			rotated: true, sql: "ALTER ROLE @owner LOGIN PASSWORD 'theirs'", previous: true,
		},
		"the owner has more attributes":             {rotated: true, sql: "ALTER ROLE @owner CREATEDB"},
		"an extension was dropped after a rotation": {in: "@", rotated: true, sql: "DROP EXTENSION pgcrypto"},
	} {
		for who, as := range administrators(t) {
			if c.by != "" && c.by != who {
				continue
			}
			t.Run(name+", by "+who, func(t *testing.T) {
				t.Parallel()
				w := rotating()
				w.Extensions = []string{"pgcrypto"}
				if who == superuser {
					w.Extensions = append(w.Extensions, "pageinspect")
				}
				w = create(t, as, w)
				if c.rotated {
					w = rotate(t, as, w, 1)
					retire(t, as, w)
				}
				hasPrevious(t, as, w, false)
				do(t, cmp.Or(strings.ReplaceAll(c.in, "@", w.Database), "postgres"), replaced(c.sql, w))
				server := open(t, as)
				found, err := server.Exists(t.Context(), w)
				if err != nil || found.Current != c.previous || (found.Previous != "") != c.previous {
					t.Fatalf("after the change: %+v, %v", found, err)
				}
				if _, err := server.Ensure(t.Context(), w); err != nil {
					t.Fatalf("updating: %v", err)
				}
				if err := server.Retire(t.Context(), w); err != nil {
					t.Fatalf("retiring: %v", err)
				}
				hasPrevious(t, as, w, false)
				use(t, w, "CREATE SCHEMA after_drift")
				for _, owner := range []string{
					"select pg_get_userbyid(nspowner) from pg_namespace where nspname = 'after_drift'",
					"select pg_get_userbyid(extowner) from pg_extension where extname = 'pgcrypto'",
				} {
					if got := ask(t, w.Database, owner); got != w.Owner {
						t.Errorf("%s: %s", owner, got)
					}
				}
			})
		}
	}
}
