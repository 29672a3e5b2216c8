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
	"windlass.dev/windlass/test/postgres"
)

// rotating returns the desired state of a new role and database whose owner has alternate logins.
func rotating() postgresql.Want {
	w := newWant()
	w.Alternates, w.Login = []string{w.Owner + "-login1", w.Owner + "-login2"}, w.Owner
	return w
}

// turned returns w after a rotation: with the other alternate login, and with the password of a generation.
func turned(w postgresql.Want, generation int) postgresql.Want {
	if w.Login == w.Alternates[0] {
		w.Login = w.Alternates[1]
	} else {
		w.Login = w.Alternates[0]
	}
	w.Password = fmt.Sprintf("canary-%s-%d", w.Database, generation)
	return w
}

// logIn logs in to the shared server as w.Login, as a client does.
func logIn(ctx context.Context, w postgresql.Want) (*pgx.Conn, error) { return logInTo(ctx, shared, w) }

// logInTo logs in to a server as w.Login, as a client does.
func logInTo(ctx context.Context, server *postgres.Server, w postgresql.Want) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig("sslmode=disable connect_timeout=10")
	if err != nil {
		return nil, err
	}
	s := settings(server)
	config.Host = s.Host
	config.Port = s.Port
	config.User = w.Login
	config.Password = w.Password
	config.Database = w.Database
	config.DialFunc = (&net.Dialer{}).DialContext
	return pgx.ConnectConfig(ctx, config)
}

// use logs in as w and executes statements. It fails the test if the login or a statement fails.
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

func canLogIn(ctx context.Context, w postgresql.Want) bool {
	conn, err := logIn(ctx, w)
	if err != nil {
		return false
	}
	_ = conn.Close(ctx)
	return true
}

// client logs in repeatedly with the login and the password of one generation, and inserts a row each time, until stop
// is called.
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

// worked fails the test if the client has not logged in, or if a login or an INSERT failed. It returns the number of
// rows.
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

// rotate rotates from the login of w to the next one, with the password of a generation, and returns the new desired
// state.
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
		t.Fatalf("retiring the previous login of %q: %v", w.Login, err)
	}
}

// hasPrevious fails the test unless Exists finds the desired state, and a previous login if and only if previous is
// true.
func hasPrevious(t *testing.T, as postgresql.Settings, w postgresql.Want, previous bool) {
	t.Helper()
	found, err := open(t, as).Exists(t.Context(), w)
	if err != nil || !found.Current || (found.Previous != "") != previous {
		t.Errorf("wanted the desired state and previous login %t, found %+v, %v", previous, found, err)
	}
}

// replaced replaces @database, @owner and @alternate in a statement with the quoted names in w.
func replaced(sql string, w postgresql.Want) string {
	return strings.NewReplacer("@database", quoted(w.Database), "@owner", quoted(w.Owner), "@alternate",
		quoted(w.Alternates[0])).Replace(sql)
}

const sqlOfLogins = "select count(*)::text from pg_roles where rolname in ($1, $2, $3) and rolcanlogin"

func TestRotationFailsNoLogin(t *testing.T) {
	t.Parallel()
	asAdministrators(t, func(t *testing.T, as postgresql.Settings) {
		w := create(t, as, rotating())
		use(t, w, "CREATE TABLE rows (id serial)", "CREATE TABLE of_generation_0 (id int)")
		current, rows := startClient(t.Context(), w), int32(0)
		for generation := 1; generation <= 6; generation++ {
			previous, was := current, w
			w = rotate(t, as, w, generation)
			current = startClient(t.Context(), w)
			use(t, w, fmt.Sprintf("CREATE TABLE of_generation_%d (id int)", generation))
			use(t, was, fmt.Sprintf("CREATE TABLE of_former_%d (id int)", generation))
			hasPrevious(t, as, w, true)
			if logins := ask(t, "postgres", sqlOfLogins, w.Owner, w.Alternates[0], w.Alternates[1]); logins != "2" {
				t.Errorf("in rotation %d, %s roles can log in", generation, logins)
			}
			previous.stop()
			rows += previous.worked(t, fmt.Sprintf("generation %d", generation-1))
			idle, err := logIn(t.Context(), was)
			if err != nil {
				t.Fatal(err)
			}
			retire(t, as, w)
			hasPrevious(t, as, w, false)
			if _, err := idle.Exec(t.Context(), "select 1"); err == nil {
				t.Errorf("a session of %q has survived", was.Login)
			}
			if canLogIn(t.Context(), was) {
				t.Errorf("%q can still log in", was.Login)
			}
			if logins := ask(t, "postgres", sqlOfLogins, w.Owner, w.Alternates[0], w.Alternates[1]); logins != "1" {
				t.Errorf("after rotation %d, %s roles can log in", generation, logins)
			}
		}
		current.stop()
		rows += current.worked(t, "the last generation")
		if found := ask(t, w.Database, "select count(*)::text from rows"); found != fmt.Sprint(rows) {
			t.Errorf("wanted %d rows, found %s", rows, found)
		}
		others := ask(t, w.Database, "select count(*)::text from pg_class where relname ~ '^(rows|of_)' and relowner "+
			"<> (select oid from pg_roles where rolname = $1)", w.Owner)
		if others != "0" {
			t.Errorf("%s tables belong to others than the owner", others)
		}
		if err := open(t, as).Delete(t.Context(), w); err != nil {
			t.Fatalf("deleting: %v", err)
		}
		left := ask(t, "postgres", "select count(*)::text from pg_roles where rolname in ($1, $2, $3)", w.Owner,
			w.Alternates[0], w.Alternates[1])
		if left != "0" {
			t.Errorf("%s roles are left", left)
		}
	})
}

func TestRotationLeavesTakenRole(t *testing.T) {
	t.Parallel()
	asAdministrators(t, func(t *testing.T, as postgresql.Settings) {
		w := create(t, as, rotating())
		do(t, "postgres", "CREATE ROLE "+quoted(w.Alternates[0])+" LOGIN PASSWORD 'theirs'")
		sql := "select (r.*)::text || coalesce((select rolpassword from pg_authid a where a.oid = r.oid), '') || " +
			"coalesce((select string_agg(roleid::text, ' ') from pg_auth_members where member = r.oid), '') from " +
			"pg_roles r where rolname = $1"
		before := ask(t, "postgres", sql, w.Alternates[0])
		err := open(t, as).Rotate(t.Context(), turned(w, 1))
		if postgresql.ClassOf(err) != postgresql.Taken {
			t.Errorf("the error is %v", err)
		}
		retire(t, as, w)
		hasPrevious(t, as, w, false)
		if err := open(t, as).Delete(t.Context(), w); err != nil {
			t.Errorf("deleting: %v", err)
		}
		if after := ask(t, "postgres", sql, w.Alternates[0]); after != before {
			t.Errorf("the role has changed from %s to %s", before, after)
		}
	})
}
