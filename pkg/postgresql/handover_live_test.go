//go:build integration

package postgresql_test

import (
	"sync/atomic"
	"testing"

	"windlass.dev/windlass/pkg/postgresql"
)

// handedOver creates a role with options and a database that the role owns, and hands both over with the statements in
// the error.
func handedOver(t *testing.T, as postgresql.Settings, options string) postgresql.Want {
	t.Helper()
	w := rotating()
	do(t, "postgres", "CREATE ROLE "+quoted(w.Owner)+" "+options,
		"CREATE DATABASE "+quoted(w.Database)+" OWNER "+quoted(w.Owner))
	_, err := open(t, as).Exists(t.Context(), w)
	statements := postgresql.ConflictOf(err).Statements
	if statements == "" {
		t.Fatalf("the error says nothing about a handover: %v", err)
	}
	do(t, "postgres", statements)
	return w
}

// check does what one reconcile does, without a rotation. It returns the ID, the number of logins of the owner that
// failed, and the error.
func check(t *testing.T, as postgresql.Settings, w postgresql.Want) (id postgresql.ID, failed int32, err error) {
	t.Helper()
	var failures atomic.Int32
	server := openWith(t, as, postgresql.Options{Allowed: here(t), Observe: func(r postgresql.Request) {
		if r.Login == postgresql.LoginOwner && r.Err != nil {
			failures.Add(1)
		}
	}})
	defer server.Close()
	found, err := server.Exists(t.Context(), w)
	id = found.ID
	if err == nil && !found.Current {
		id, err = server.Ensure(t.Context(), w)
	}
	return id, failures.Load(), err
}

// TestAdviceAboutUnknownPasswordLetsRoleLogIn hands over a role whose password the operator does not know, and then
// executes the remedy in the error.
func TestAdviceAboutUnknownPasswordLetsRoleLogIn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options  string // the options of the existing role
		password string // a password that an administrator sets, because the role has none
		remedy   string // the remedy, without the name of the role
	}{
		"a role with another password": {options: "LOGIN PASSWORD 'canary-theirs'"},
		"a role without a password":    {options: "LOGIN", password: "canary-theirs"},
		"a role that cannot log in":    {options: "NOLOGIN PASSWORD 'canary-theirs'", remedy: "LOGIN"},
		"a role that can neither log in nor has a password": {
			options: "NOLOGIN", password: "canary-theirs", remedy: "LOGIN",
		},
		"a role whose password has expired": {
			options: "LOGIN PASSWORD 'canary-theirs' VALID UNTIL '2001-01-01'", remedy: "VALID UNTIL 'infinity'",
		},
		"a role that cannot log in, whose password has expired": {
			options: "NOLOGIN PASSWORD 'canary-theirs' VALID UNTIL '2001-01-01'", remedy: "LOGIN VALID UNTIL 'infinity'",
		},
	} {
		for who, as := range administrators(t) {
			t.Run(name+", by "+who, func(t *testing.T) {
				t.Parallel()
				w := handedOver(t, as, c.options)
				remedy := ""
				if c.remedy != "" {
					remedy = "ALTER ROLE " + quoted(w.Owner) + " " + c.remedy
				}
				unknown := func(when string) {
					id, failed, err := check(t, as, w)
					got := postgresql.ConflictOf(err).Remedy
					if postgresql.ClassOf(err) != postgresql.Kept || got != remedy || failed != 1 || id == "" {
						t.Fatalf("%s: %d failed logins, remedy %q, %v", when, failed, got, err)
					}
					w.ID = id
				}
				unknown("first")
				unknown("again")
				rotated := handedOver(t, as, c.options)
				rotated.ID, _, _ = check(t, as, rotated)
				if c.password != "" {
					do(t, "postgres", "ALTER ROLE "+quoted(w.Owner)+" PASSWORD '"+c.password+"'")
				}
				w.Password = "canary-theirs"
				if remedy != "" {
					unknown("with the password, before the statement")
					do(t, "postgres", remedy)
				}
				if _, failed, err := check(t, as, w); err != nil || failed != 0 {
					t.Errorf("after the advice: %d failed logins, %v", failed, err)
				}
				isCurrent(t, as, w)
				hasPrevious(t, as, rotate(t, as, rotated, 1), c.options[:2] != "NO")
			})
		}
	}
}

// TestWrongPasswordOfOwnRoleIsTriedOnce changes the password of a role that the operator has made.
func TestWrongPasswordOfOwnRoleIsTriedOnce(t *testing.T) {
	t.Parallel()
	w := create(t, settings(shared), rotating())
	do(t, "postgres", "ALTER ROLE "+quoted(w.Owner)+" PASSWORD 'canary-theirs'")
	if _, failed, err := check(t, settings(shared), w); err != nil || failed != 1 {
		t.Errorf("%d failed logins, %v", failed, err)
	}
	isCurrent(t, settings(shared), w)
}
