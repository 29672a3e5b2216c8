//go:build integration

package postgresql_test

import (
	"strings"
	"testing"

	"windlass.dev/windlass/pkg/postgresql"
)

// TestUsersCannotBlockCreateOrDelete does what users and owners of databases could do to block a creation or a
// deletion: it connects to template1, makes a database a template, and sets the connection limit of the database to 0.
func TestUsersCannotBlockCreateOrDelete(t *testing.T) {
	t.Parallel()
	as := settings(shared)
	conn, err := shared.Connect(t.Context(), "template1") // template1 cannot be copied while this connection is open
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	w := create(t, as, newWant())
	do(t, "postgres", "ALTER DATABASE "+quoted(w.Database)+" IS_TEMPLATE true",
		"ALTER DATABASE "+quoted(w.Database)+" CONNECTION LIMIT 0")
	if err := open(t, as).Delete(t.Context(), w); err != nil {
		t.Errorf("deleting a template: %v", err)
	}
}

func TestUntrustedExtensionsRequireOption(t *testing.T) {
	t.Parallel()
	w := create(t, settings(shared), newWant())
	w.Extensions = []string{"pageinspect"}
	_, err := openWith(t, settings(shared), postgresql.Options{
		Allowed: here(t), UntrustedExtensions: []string{"postgis"},
	}).Ensure(t.Context(), w)
	if postgresql.ClassOf(err) != postgresql.Unlisted ||
		!strings.Contains(err.Error(), "--external-database-untrusted-extensions") {
		t.Errorf("got %v of class %s", err, postgresql.ClassOf(err))
	}
	create(t, settings(shared), w)
	isCurrent(t, settings(shared), w)
}

func TestExtensionsAreCreatedInAnyOrder(t *testing.T) {
	t.Parallel()
	w := newWant()
	w.Extensions = []string{"earthdistance", "no-such-extension", "cube"}
	id, err := open(t, settings(shared)).Ensure(t.Context(), w)
	if postgresql.ClassOf(err) != postgresql.Rejected || !strings.Contains(err.Error(), "no-such-extension") || id == "" {
		t.Errorf("got %q, %v of class %s", id, err, postgresql.ClassOf(err))
	}
	w.ID, w.Extensions = id, []string{"earthdistance", "cube"}
	isCurrent(t, settings(shared), w)
}
