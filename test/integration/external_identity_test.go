//go:build integration

package integration

import (
	"strings"
	"testing"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
)

// unchanged fails the test unless what a query gives is the same before and after.
func (e *external) unchanged(t *testing.T, database, sql string, do func()) {
	t.Helper()
	before := e.ask(t, database, sql)
	do()
	if after := e.ask(t, database, sql); after != before {
		t.Errorf("%s gave %s, and now gives %s", sql, before, after)
	}
}

// all is what could be changed of a role and a database.
const all = "select concat_ws(' ', (select concat_ws(' ', oid, rolcanlogin, rolsuper, rolcreatedb, rolpassword, shobj_description(oid, 'pg_authid')) from pg_authid where rolname = 'owner'), " +
	"(select concat_ws(' ', oid, datdba, datacl, datallowconn, shobj_description(oid, 'pg_database')) from pg_database where datname = 'database'))"

func TestWhatIsThereBeforehandIsLeftAlone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before []string
		words  []string
	}{
		"a role":                    {[]string{"CREATE ROLE @owner LOGIN"}, []string{"role", "belongs to no ExternalDatabase", "COMMENT ON ROLE", "COMMENT ON DATABASE"}},
		"a database":                {[]string{"CREATE DATABASE @database"}, []string{"database", "belongs to no ExternalDatabase"}},
		"both":                      {[]string{"CREATE ROLE @owner LOGIN", "CREATE DATABASE @database OWNER @owner"}, []string{"role", "belongs to no ExternalDatabase"}},
		"a role with words of mine": {[]string{"CREATE ROLE @owner", "COMMENT ON ROLE @owner IS 'windlass.dev/externaldatabase is mine'"}, []string{"belongs to no ExternalDatabase"}},
		"a role of somebody else's": {[]string{"CREATE ROLE @owner", "COMMENT ON ROLE @owner IS 'windlass.dev/externaldatabase theirs/cart some-uid'"}, []string{"ExternalDatabase theirs/cart (UID some-uid)"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newExternal(t, outside(t), nil)
			e.do(t, "postgres", c.before...)
			e.unchanged(t, "postgres", all, func() {
				e.create(t, nil)
				e.says(t, "NameConflict", true, c.words...)
				e.delete(t)
				e.gone(t)
			})
		})
	}
}

func TestTwoExternalDatabasesOfOneNameAreTheFirsts(t *testing.T) {
	t.Parallel()
	for name, namespaceOfSecond := range map[string]func(*testing.T, string) string{
		"in one namespace":  func(_ *testing.T, first string) string { return first },
		"in two namespaces": func(t *testing.T, _ string) string { return shared.NewNamespace(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newExternal(t, outside(t), nil)
			e.create(t, nil)
			e.ready(t)
			namespace := namespaceOfSecond(t, e.namespace)
			if namespace != e.namespace {
				createConnection(t, shared, namespace, "server", connectionTo(e.server))
			}
			e.unchanged(t, "postgres", all, func() {
				shared.CreateExternalDatabase(t, namespace, "second", e.spec())
				second := shared.ExternalDatabaseReason(t, namespace, "second", "NameConflict")
				if !strings.Contains(message(second), "ExternalDatabase "+e.namespace+"/shop (UID") {
					t.Errorf("it is not said whose it is: %s", message(second))
				}
				deleteExternal(t, namespace, "second")
			})
			e.works(t)
		})
	}
}

func TestADatabaseThatIsHandedOverIsTaken(t *testing.T) {
	t.Parallel()
	e := newExternal(t, outside(t), nil)
	e.do(t, "postgres", "CREATE ROLE @owner LOGIN", "CREATE DATABASE @database OWNER @owner")
	e.do(t, e.spec().DatabaseName, "CREATE TABLE precious (n int)")
	e.create(t, nil)
	said := message(e.reason(t, "NameConflict"))
	_, sql, ok := strings.Cut(said, "have the server's administrator run: ")
	if !ok {
		t.Fatalf("it is not said how to hand it over: %s", said)
	}
	e.do(t, "postgres", sql)
	e.touch(t)
	e.ready(t)
	e.works(t)
	if got := e.ask(t, e.spec().DatabaseName, "select count(*) from pg_class where relname = 'precious'"); got != "1" {
		t.Error("what was there is gone")
	}
}

func TestADatabaseThatIsMadeAgainByOthersIsTheirs(t *testing.T) {
	t.Parallel()
	e := newExternal(t, outside(t), nil)
	e.create(t, nil)
	e.ready(t)
	e.do(t, "postgres", "DROP DATABASE @database WITH (FORCE)", "CREATE DATABASE @database OWNER @owner")
	theirs := "select concat_ws(' ', oid, datdba, datacl, shobj_description(oid, 'pg_database')) from pg_database where datname = 'database'"
	e.unchanged(t, "postgres", theirs, func() {
		e.touch(t)
		e.says(t, "NameConflict", true, "database", "belongs to no ExternalDatabase")
		e.delete(t)
		e.says(t, "Rejected", true, "deletionPolicy Retain", "cannot be dropped because some objects depend on it") // the role, which owns it
		e.update(t, func(db *v1alpha1.ExternalDatabase) { db.Spec.DeletionPolicy = v1alpha1.DeletionRetain })
		e.gone(t)
	})
}

// TestADatabaseWithOurMarkIsNotDeletedIfItIsAnother has somebody restore a dump, marks
// and all.
func TestADatabaseWithOurMarkIsNotDeletedIfItIsAnother(t *testing.T) {
	t.Parallel()
	e := newExternal(t, outside(t), nil)
	e.create(t, nil)
	e.ready(t)
	mark := e.ask(t, "postgres", "select shobj_description(oid, 'pg_database') from pg_database where datname = 'database'")
	e.pause(t, "true")
	e.do(t, "postgres", "DROP DATABASE @database WITH (FORCE)", "CREATE DATABASE @database OWNER @owner", "COMMENT ON DATABASE @database IS '"+mark+"'")
	e.unchanged(t, "postgres", all, func() {
		e.delete(t)
		e.pause(t, "false")
		e.says(t, "ServerReplaced", true, "another one than before")
		e.update(t, func(db *v1alpha1.ExternalDatabase) { db.Spec.DeletionPolicy = v1alpha1.DeletionRetain })
		e.gone(t)
	})
}

func TestADatabaseThatIsDroppedIsNotMadeAgainUnasked(t *testing.T) {
	t.Parallel()
	e := newExternal(t, outside(t), nil)
	e.create(t, nil)
	before := e.ready(t).Status.ExternalID
	e.do(t, "postgres", "DROP DATABASE @database WITH (FORCE)")
	e.touch(t)
	e.says(t, "DatabaseGone", true, "restore it under its name", "windlass.dev/recreate="+before)
	if n := e.ask(t, "postgres", "select count(*) from pg_database where datname = 'database'"); n != "0" {
		t.Error("an empty one is made")
	}
	e.update(t, func(db *v1alpha1.ExternalDatabase) {
		db.Annotations = map[string]string{"windlass.dev/recreate": before}
	})
	after := shared.ExternalDatabaseWith(t, e.namespace, "shop", "another one", func(db *v1alpha1.ExternalDatabase) bool {
		return db.Status.Phase == v1alpha1.ExternalDatabaseReady && db.Status.ExternalID != before
	})
	e.works(t)
	e.do(t, "postgres", "DROP DATABASE @database WITH (FORCE)")
	e.touch(t)
	e.says(t, "DatabaseGone", true, "windlass.dev/recreate="+after.Status.ExternalID) // it was asked for once
}

// TestADatabaseThatIsRestoredIsTakenUp has a dump restored that has the mark, as those of
// pg_dump --create have, or has none.
func TestADatabaseThatIsRestoredIsTakenUp(t *testing.T) {
	t.Parallel()
	for name, marked := range map[string]bool{"with its mark": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newExternal(t, outside(t), nil)
			e.create(t, nil)
			before := e.ready(t).Status.ExternalID
			mark := e.ask(t, "postgres", "select shobj_description(oid, 'pg_database') from pg_database where datname = 'database'")
			e.do(t, "postgres", "DROP DATABASE @database WITH (FORCE)")
			e.touch(t)
			e.says(t, "DatabaseGone", true)
			e.do(t, "postgres", "CREATE DATABASE @database OWNER @owner")
			if marked {
				e.do(t, "postgres", "COMMENT ON DATABASE @database IS '"+mark+"'")
			} else {
				e.touch(t)
				e.says(t, "NameConflict", true)
				_, sql, _ := strings.Cut(message(e.reason(t, "NameConflict")), "have the server's administrator run: ")
				e.do(t, "postgres", sql)
			}
			e.touch(t)
			if after := e.ready(t).Status.ExternalID; after == before {
				t.Error("it is not noted that it is another one")
			}
			e.works(t)
		})
	}
}

func TestAServerThatIsReplacedIsLeftAlone(t *testing.T) {
	t.Parallel()
	e := newExternal(t, outside(t), nil)
	e.create(t, nil)
	e.ready(t)
	other := ownOutside(t)
	updateConnection(t, e.namespace, "server", connectionTo(other))
	e.says(t, "ServerReplaced", true, "its system identifier is", "deletionPolicy to Retain")
	there := &external{namespace: e.namespace, server: other}
	there.left(t, "0")
	e.delete(t)
	e.says(t, "ServerReplaced", true, "its system identifier is")
	there.left(t, "0")
	e.left(t, "2")
	updateConnection(t, e.namespace, "server", connectionTo(e.server))
	e.gone(t)
	e.left(t, "0")
}
