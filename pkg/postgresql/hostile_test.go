//go:build integration

package postgresql_test

import (
	"strings"
	"testing"

	"windlass.dev/windlass/pkg/postgresql"
)

func TestForgedMarkIsRejected(t *testing.T) {
	t.Parallel()
	theirs := create(t, settings(shared), newWant())
	w := newWant()
	w.Database = theirs.Database
	do(t, "postgres", "COMMENT ON DATABASE "+quoted(theirs.Database)+" IS '"+w.Mark.String()+"'") // the owner may do this
	_, err := open(t, settings(shared)).Exists(t.Context(), w)
	if err == nil {
		_, err = open(t, settings(shared)).Create(t.Context(), w)
	}
	if postgresql.ClassOf(err) != postgresql.Taken {
		t.Errorf("got %v of class %s", err, postgresql.ClassOf(err))
	}
	owner := ask(t, "postgres", "select pg_get_userbyid(datdba) from pg_database where datname = $1", theirs.Database)
	if owner != theirs.Owner {
		t.Errorf("the database went to %s", owner)
	}
}

// TestUsersCannotBlockCreateOrDelete does what users and owners may do and what could block a creation or a
// deletion: it connects to template1, makes a database a template, and sets its connection limit to 0.
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
	err := openWith(t, settings(shared), postgresql.Options{
		Allowed: here(t), UntrustedExtensions: []string{"postgis"},
	}).Update(t.Context(), w)
	if postgresql.ClassOf(err) != postgresql.Unlisted ||
		!strings.Contains(err.Error(), "--external-database-untrusted-extensions") {
		t.Errorf("got %v of class %s", err, postgresql.ClassOf(err))
	}
	if err := open(t, settings(shared)).Update(t.Context(), w); err != nil {
		t.Error(err)
	}
	isCurrent(t, settings(shared), w)
}

func TestExtensionsAreCreatedInAnyOrder(t *testing.T) {
	t.Parallel()
	w := newWant()
	w.Extensions = []string{"earthdistance", "no-such-extension", "cube"}
	id, err := open(t, settings(shared)).Create(t.Context(), w)
	if postgresql.ClassOf(err) != postgresql.Rejected || !strings.Contains(err.Error(), "no-such-extension") || id == "" {
		t.Errorf("got %q, %v of class %s", id, err, postgresql.ClassOf(err))
	}
	w.ID, w.Extensions = id, []string{"earthdistance", "cube"}
	isCurrent(t, settings(shared), w)
}
