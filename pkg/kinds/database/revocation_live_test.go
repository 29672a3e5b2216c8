//go:build integration

package database

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/kinds/internal/credentials"
)

// TestLeakedLoginCannotHoldUpItsRevocation has a user of the leaked login with an open session. The session does all
// that the login may do to block the script in the Pod and the operator.
func TestLeakedLoginCannotHoldUpItsRevocation(t *testing.T) {
	t.Parallel()
	for name, statements := range map[string][]string{
		"settings of the role and the database": {
			"ALTER ROLE app SET debug_print_plan = on", "ALTER ROLE app SET client_min_messages = log",
			"ALTER DATABASE app SET debug_print_plan = on", "ALTER DATABASE app SET client_min_messages = log",
			"ALTER DATABASE app SET local_preload_libraries = 'missing'", "ALTER DATABASE app SET statement_timeout = 1",
			"ALTER DATABASE app SET default_transaction_read_only = on", "ALTER DATABASE app SET role = app",
		},
		"a lock on the role": {"BEGIN", "ALTER ROLE app PASSWORD 'of-the-attacker'"},
		"a lock on a database that accepts no connections": {
			"ALTER DATABASE app ALLOW_CONNECTIONS false", "BEGIN", "ALTER DATABASE app CONNECTION LIMIT 7",
		},
		"a database without connections": {"ALTER DATABASE app CONNECTION LIMIT 0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newLiveDatabase(t)
			previous := d.fixture.secret()
			session, err := d.connect(t.Context(), "app", string(previous.Data[credentials.KeyPassword]), "postgres")
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close(context.Background())
			for _, sql := range statements {
				if _, err := session.Exec(t.Context(), sql); err != nil {
					t.Fatalf("%s: %v", sql, err)
				}
			}
			d.Change(func(db *v1alpha1.Database) {
				metav1.SetMetaDataAnnotation(&db.ObjectMeta, credentials.RotateAnnotation, "leaked")
			})
			d.until(t, "the Secret to have another login", func() bool {
				d.Clock.Step(settleTime / 10)
				secret := d.fixture.secret()
				username := string(previous.Data[credentials.KeyUsername])
				return secret != nil && string(secret.Data[credentials.KeyUsername]) != username
			})
			d.Clock.Step(credentials.DefaultGracePeriod + time.Second)
			d.until(t, "the session to end", func() bool { return session.Ping(t.Context()) != nil })
			d.until(t, "the server to reject the previous login", func() bool {
				return rejects(t, d.liveServer, "app", string(previous.Data[credentials.KeyPassword]))
			})
		})
	}
}

// rejects reports whether the server rejects a username with a password, independently of the database.
func rejects(t *testing.T, s *liveServer, username, password string) bool {
	t.Helper()
	conn, err := s.connect(t.Context(), username, password, "postgres")
	if err == nil {
		_ = conn.Close(context.Background())
		return false
	}
	return strings.Contains(err.Error(), "28000") || strings.Contains(err.Error(), "28P01")
}

// TestPreviousOwnerCannotHoldUpItsEnd has a client of the previous owner that locks a table and its role.
func TestPreviousOwnerCannotHoldUpItsEnd(t *testing.T) {
	t.Parallel()
	s := newLiveServer(t)
	previous := string(s.secret.Data[credentials.KeyPassword])
	sessions := []*pgx.Conn{s.login(t), s.login(t)}
	for _, sql := range []string{"CREATE TABLE held (id int)", "BEGIN", "LOCK TABLE held"} {
		if _, err := sessions[0].Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	for _, sql := range []string{"BEGIN", "ALTER ROLE app PASSWORD 'of-the-attacker'"} {
		if _, err := sessions[1].Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	s.db.Spec.Owner = "clerk"
	s.setPassword("canary-of-clerk")
	s.mount(t)
	s.awaitSettings(t)
	for _, session := range sessions {
		if session.Ping(t.Context()) == nil {
			t.Error("a session of the previous owner has survived")
		}
	}
	for _, password := range []string{previous, "of-the-attacker"} {
		if !rejects(t, s, "app", password) {
			t.Error("the previous owner can log in")
		}
	}
	s.wants(t, "select tableowner::text from pg_tables where tablename = 'held'", "clerk")
}
