//go:build integration

package postgresql_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"windlass.dev/windlass/pkg/postgresql"
)

// withRemedy calls a function, which must succeed. If remedy is not empty, the function must first fail with an error
// that has this remedy, and succeed after a superuser has executed the remedy.
func withRemedy(t *testing.T, what, remedy string, call func() error) {
	t.Helper()
	err := call()
	if remedy != "" {
		if got := postgresql.ConflictOf(err).Remedy; postgresql.ClassOf(err) != postgresql.Protected || got != remedy {
			t.Fatalf("%s: wanted the remedy %s, got %q, %v of class %s", what, remedy, got, err, postgresql.ClassOf(err))
		}
		do(t, "postgres", remedy)
		err = call()
	}
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// TestAttributeOfAdministratorStaysOnOwnRole has a superuser who gives REPLICATION or BYPASSRLS to a role of the
// operator.
func TestAttributeOfAdministratorStaysOnOwnRole(t *testing.T) {
	t.Parallel()
	old := ask(t, "postgres", "select current_setting('server_version_num')::int < 160000") == "true"
	for _, attribute := range []string{"REPLICATION", "BYPASSRLS"} {
		for who, as := range administrators(t) {
			t.Run(attribute+", by "+who, func(t *testing.T) {
				t.Parallel()
				w := create(t, as, rotating())
				give := func(role string) { do(t, "postgres", "ALTER ROLE "+quoted(role)+" "+attribute) }
				remedy := func(role string) string {
					if !old || as.Username == "postgres" || attribute != "REPLICATION" {
						return ""
					}
					return "ALTER ROLE " + quoted(role) + " NO" + attribute
				}
				give(w.Owner)
				isCurrent(t, as, w)
				w.Password += "-edited"
				withRemedy(t, "updating", remedy(w.Owner), func() error {
					_, err := open(t, as).Ensure(t.Context(), w)
					return err
				})
				isCurrent(t, as, w)
				give(w.Owner)
				w = rotate(t, as, w, 1) // a rotation does not alter the owner
				withRemedy(t, "retiring", remedy(w.Owner), func() error { return open(t, as).Retire(t.Context(), w) })
				hasPrevious(t, as, w, false)
				give(w.Owner)
				give(w.Login)
				const has = "select count(*)::text from pg_roles where rolname = $1 and (rolreplication or rolbypassrls)"
				first := w.Login
				w = rotate(t, as, w, 2)
				withRemedy(t, "retiring again", remedy(first), func() error { return open(t, as).Retire(t.Context(), w) })
				if ask(t, "postgres", has, w.Owner) != "1" {
					t.Errorf("the owner has lost %s", attribute)
				}
				give(first)
				w = turned(w, 3)
				withRemedy(t, "rotating back", remedy(first), func() error { return open(t, as).Rotate(t.Context(), w) })
				give(first)
				if err := open(t, as).Delete(t.Context(), w); err != nil {
					t.Fatalf("deleting: %v", err)
				}
				const roles = "select count(*)::text from pg_roles where rolname like $1 || '%'"
				if left := ask(t, "postgres", roles, w.Owner); left != "0" {
					t.Errorf("%s roles are left", left)
				}
			})
		}
	}
}

// TestSuperuserOfOwnIsNotDeleted gives SUPERUSER to a role of the operator. Delete fails until the remedy in its error
// is executed.
func TestSuperuserOfOwnIsNotDeleted(t *testing.T) {
	t.Parallel()
	asAdministrators(t, func(t *testing.T, as postgresql.Settings) {
		w := create(t, as, rotating())
		do(t, "postgres", "ALTER ROLE "+quoted(w.Owner)+" SUPERUSER")
		remedy := "ALTER ROLE " + quoted(w.Owner) + " NOSUPERUSER"
		withRemedy(t, "deleting", remedy, func() error { return open(t, as).Delete(t.Context(), w) })
	})
}

// TestForeignRoleWithAttributeStaysProtected has a role that has the name of the owner, but that the operator did not
// create.
func TestForeignRoleWithAttributeStaysProtected(t *testing.T) {
	t.Parallel()
	for _, attribute := range []string{"REPLICATION", "BYPASSRLS", "SUPERUSER", "CREATEROLE"} {
		t.Run(attribute, func(t *testing.T) {
			t.Parallel()
			w := rotating()
			do(t, "postgres", "CREATE ROLE "+quoted(w.Owner)+" LOGIN "+attribute)
			_, err := open(t, settings(shared)).Ensure(t.Context(), w)
			conflict, class := postgresql.ConflictOf(err), postgresql.ClassOf(err)
			if class != postgresql.Protected || conflict.Remedy != "" {
				t.Errorf("creating: %v of class %s, %+v", err, class, conflict)
			}
			if err := open(t, settings(shared)).Delete(t.Context(), w); err != nil {
				t.Errorf("deleting what is not ours: %v", err)
			}
			if left := ask(t, "postgres", "select count(*)::text from pg_roles where rolname = $1", w.Owner); left != "1" {
				t.Error("the role was dropped")
			}
		})
	}
}

// TestRetirementEndsReplication has a client that replicates with the previous login.
func TestRetirementEndsReplication(t *testing.T) {
	t.Parallel()
	as := settings(shared)
	w := create(t, as, rotating())
	do(t, "postgres", "ALTER ROLE "+quoted(w.Owner)+" REPLICATION")
	config, err := pgconn.ParseConfig("host=127.0.0.1 sslmode=disable replication=database")
	if err != nil {
		t.Fatal(err)
	}
	config.Port, config.User, config.Password, config.Database = as.Port, w.Login, w.Password, w.Database
	conn, err := pgconn.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	identify := func() error { return conn.Exec(t.Context(), "IDENTIFY_SYSTEM").Close() }
	if err := identify(); err != nil {
		t.Fatalf("before the rotation: %v", err)
	}
	next := rotate(t, as, w, 1)
	retire(t, as, next)
	if err := identify(); err == nil || !strings.Contains(err.Error(), "57P01") {
		t.Errorf("after the end of the login: %v", err)
	}
	hasPrevious(t, as, next, false)
}
