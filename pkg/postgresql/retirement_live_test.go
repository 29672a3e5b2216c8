//go:build integration

package postgresql_test

import (
	"context"
	"testing"

	"windlass.dev/windlass/pkg/postgresql"
)

// locked locks the row of a role until the test ends: a session of w changes the password of the role in a transaction,
// which stays open.
func locked(t *testing.T, w postgresql.Want, role string) {
	t.Helper()
	conn, err := logIn(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	for _, sql := range []string{
		"SET ROLE NONE", "BEGIN", "ALTER ROLE " + quoted(role) + " PASSWORD 'canary-of-the-lock'",
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

// TestPreviousLoginDoesNotLockItsRole has a client of the previous login that keeps the row of its role locked.
func TestPreviousLoginDoesNotLockItsRole(t *testing.T) {
	t.Parallel()
	asAdministrators(t, func(t *testing.T, as postgresql.Settings) {
		w := create(t, as, rotating())
		for generation := 1; generation <= 2; generation++ { // the previous login is the owner, then an alternate login
			was := w
			w = rotate(t, as, w, generation)
			locked(t, was, was.Login)
			retire(t, as, w)
			hasPrevious(t, as, w, false)
		}
		intruder := turned(w, 2) // a user of the login to which the next rotation changes
		do(t, "postgres", "ALTER ROLE "+quoted(intruder.Login)+" LOGIN PASSWORD '"+intruder.Password+"'")
		locked(t, intruder, intruder.Login)
		hasPrevious(t, as, rotate(t, as, w, 3), true)
	})
}

// TestLockOfLoginInUseDelaysUpdate locks the row of the login in use. The operator ends no sessions of this login to
// change its password, so the update fails with the class Away.
func TestLockOfLoginInUseDelaysUpdate(t *testing.T) {
	t.Parallel()
	w := rotate(t, settings(shared), create(t, settings(shared), rotating()), 1)
	locked(t, w, w.Login)
	edited := w
	edited.Password = "canary-edited"
	if _, err := open(t, settings(shared)).Ensure(t.Context(), edited); postgresql.ClassOf(err) != postgresql.Away {
		t.Errorf("the error is %v", err)
	}
	hasPrevious(t, settings(shared), w, true)
}

// TestDeletionEndsSessionsOfAlternateLogin has a session of an alternate login, and an administrator who is not a
// member of this login.
func TestDeletionEndsSessionsOfAlternateLogin(t *testing.T) {
	t.Parallel()
	asAdministrators(t, func(t *testing.T, as postgresql.Settings) {
		w := rotate(t, as, create(t, as, rotating()), 1)
		if as.Username != "postgres" {
			do(t, "postgres", "REVOKE "+quoted(w.Login)+" FROM "+quoted(as.Username))
		}
		conn, err := logIn(t.Context(), w)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		if err := open(t, as).Delete(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		left := ask(t, "postgres", "select count(*)::text from pg_roles where rolname like $1 || '%'", w.Owner)
		if left != "0" {
			t.Errorf("%s roles are left", left)
		}
	})
}
