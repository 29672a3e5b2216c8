//go:build integration

package integration

import (
	"strings"
	"testing"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
)

// unchanged calls do, and fails the test unless a query returns the same value before and after the call.
func (e *external) unchanged(t *testing.T, database, sql string, do func()) {
	t.Helper()
	before := e.query(t, database, sql)
	do()
	if after := e.query(t, database, sql); after != before {
		t.Errorf("%s returned %s before and returns %s now", sql, before, after)
	}
}

// roleAndDatabase is a query for the properties of the role and the database that the operator could change.
const roleAndDatabase = "select concat_ws(' ', (select concat_ws(' ', oid, rolcanlogin, rolsuper, rolcreatedb, " +
	"rolpassword, shobj_description(oid, 'pg_authid')) from pg_authid where rolname = 'owner'), " +
	"(select concat_ws(' ', oid, datdba, datacl, datallowconn, shobj_description(oid, 'pg_database')) from " +
	"pg_database where datname = 'database'))"

func TestExternalDatabaseKeepsExistingRoleAndDatabase(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before []string
		words  []string
	}{
		"a role": {
			[]string{"CREATE ROLE @owner LOGIN"}, []string{"role", "belongs to no ExternalDatabase", "COMMENT ON ROLE"},
		},
		"a database": {[]string{"CREATE DATABASE @database"}, []string{"database", "belongs to no ExternalDatabase"}},
		"a role and a database": {
			[]string{"CREATE ROLE @owner LOGIN", "CREATE DATABASE @database OWNER @owner"}, []string{
				"role", "belongs to no ExternalDatabase", "COMMENT ON DATABASE",
			},
		},
		"a role with another mark": {
			[]string{
				"CREATE ROLE @owner", "COMMENT ON ROLE @owner IS 'windlass.dev/externaldatabase is mine'",
			}, []string{"belongs to no ExternalDatabase"},
		},
		"a role with a foreign UID": {
			[]string{
				"CREATE ROLE @owner", "COMMENT ON ROLE @owner IS 'windlass.dev/externaldatabase theirs/cart some-uid'",
			}, []string{"ExternalDatabase theirs/cart (UID some-uid)"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newExternal(t, sharedServer(t), nil)
			e.exec(t, "postgres", c.before...)
			e.unchanged(t, "postgres", roleAndDatabase, func() {
				e.create(t, nil)
				e.wantMessage(t, "NameConflict", true, c.words...)
				e.delete(t)
				e.waitDeleted(t)
			})
		})
	}
}

func TestSecondExternalDatabaseReportsNameConflict(t *testing.T) {
	t.Parallel()
	for name, namespaceOfSecond := range map[string]func(*testing.T, string) string{
		"in one namespace":  func(_ *testing.T, first string) string { return first },
		"in two namespaces": func(t *testing.T, _ string) string { return shared.NewNamespace(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newExternal(t, sharedServer(t), nil)
			e.create(t, nil)
			e.ready(t)
			namespace := namespaceOfSecond(t, e.namespace)
			if namespace != e.namespace {
				createConnection(t, shared, namespace, "server", connectionTo(e.server))
			}
			e.unchanged(t, "postgres", roleAndDatabase, func() {
				shared.CreateExternalDatabase(t, namespace, "second", e.spec())
				second := shared.ExternalDatabaseReason(t, namespace, "second", "NameConflict")
				if !strings.Contains(message(second), "ExternalDatabase "+e.namespace+"/shop (UID") {
					t.Errorf("the message does not name the owner: %s", message(second))
				}
				deleteExternal(t, namespace, "second")
			})
			e.wantOwnerLogin(t)
		})
	}
}

func TestExternalDatabaseAdoptsHandedOverDatabase(t *testing.T) {
	t.Parallel()
	e := newExternal(t, sharedServer(t), nil)
	e.exec(t, "postgres", "CREATE ROLE @owner LOGIN", "CREATE DATABASE @database OWNER @owner")
	e.exec(t, e.spec().DatabaseName, "CREATE TABLE precious (n int)")
	e.create(t, nil)
	text := message(e.reason(t, "NameConflict"))
	_, sql, ok := strings.Cut(text, handOverWords)
	if !ok {
		t.Fatalf("the message does not say how to hand over the database: %s", text)
	}
	e.exec(t, "postgres", sql)
	e.touch(t)
	e.wantMessage(t, "PasswordUnknown", true, "shop-credentials")
	e.exec(t, "postgres", "ALTER ROLE @owner PASSWORD 'of-the-owner'")
	patchSecret(t, e.namespace, "shop-credentials", `{"stringData":{"password":"of-the-owner"}}`)
	e.ready(t)
	e.wantOwnerLogin(t)
	if got := e.query(t, e.spec().DatabaseName, "select count(*) from pg_class where relname = 'precious'"); got != "1" {
		t.Error("the table that existed before was dropped")
	}
}

func TestExternalDatabaseKeepsDatabaseRecreatedByOthers(t *testing.T) {
	t.Parallel()
	e := newExternal(t, sharedServer(t), nil)
	e.create(t, nil)
	e.ready(t)
	e.exec(t, "postgres", "DROP DATABASE @database WITH (FORCE)", "CREATE DATABASE @database OWNER @owner")
	theirs := "select concat_ws(' ', oid, datdba, datacl, shobj_description(oid, 'pg_database')) from pg_database " +
		"where datname = 'database'"
	e.unchanged(t, "postgres", theirs, func() {
		e.touch(t)
		e.wantMessage(t, "NameConflict", true, "database", "belongs to no ExternalDatabase")
		e.delete(t)
		e.wantMessage(t, "Rejected", true, "set deletionPolicy to Retain",
			"cannot be dropped because some objects depend on it: owner of database")
		e.update(t, func(db *v1alpha1.ExternalDatabase) { db.Spec.DeletionPolicy = v1alpha1.DeletionRetain })
		e.waitDeleted(t)
	})
}

// TestExternalDatabaseKeepsOtherDatabaseWithItsMark replaces the database with another database that has the same
// mark, as after a restore of a dump.
func TestExternalDatabaseKeepsOtherDatabaseWithItsMark(t *testing.T) {
	t.Parallel()
	e := newExternal(t, sharedServer(t), nil)
	e.create(t, nil)
	e.ready(t)
	mark := e.query(t, "postgres", "select shobj_description(oid, 'pg_database') from pg_database where datname "+
		"= 'database'")
	e.pause(t, "true")
	e.exec(t, "postgres", "DROP DATABASE @database WITH (FORCE)", "CREATE DATABASE @database OWNER @owner",
		"COMMENT ON DATABASE @database IS '"+mark+"'")
	e.unchanged(t, "postgres", roleAndDatabase, func() {
		e.delete(t)
		e.pause(t, "false")
		e.wantMessage(t, "ServerReplaced", true, "but was replaced")
		e.update(t, func(db *v1alpha1.ExternalDatabase) { db.Spec.DeletionPolicy = v1alpha1.DeletionRetain })
		e.waitDeleted(t)
	})
}

func TestDroppedDatabaseIsRecreatedOnlyOnRequest(t *testing.T) {
	t.Parallel()
	e := newExternal(t, sharedServer(t), nil)
	e.create(t, nil)
	before := e.ready(t).Status.ExternalID
	e.exec(t, "postgres", "DROP DATABASE @database WITH (FORCE)")
	e.touch(t)
	e.wantMessage(t, "DatabaseGone", true, "Restore the database under its name", "windlass.dev/recreate="+before)
	if n := e.query(t, "postgres", "select count(*) from pg_database where datname = 'database'"); n != "0" {
		t.Error("the operator has created an empty database")
	}
	e.update(t, func(db *v1alpha1.ExternalDatabase) {
		db.Annotations = map[string]string{"windlass.dev/recreate": before}
	})
	after := shared.ExternalDatabaseWith(t, e.namespace, "shop", "Ready with another database",
		func(db *v1alpha1.ExternalDatabase) bool {
			return db.Status.Phase == v1alpha1.ExternalDatabaseReady && db.Status.ExternalID != before
		})
	e.wantOwnerLogin(t)
	e.exec(t, "postgres", "DROP DATABASE @database WITH (FORCE)")
	e.touch(t)
	// the annotation permits only the replacement of the first database
	e.wantMessage(t, "DatabaseGone", true, "windlass.dev/recreate="+after.Status.ExternalID)
}

// TestExternalDatabaseAdoptsRestoredDatabase restores a database with its mark, as from a dump of pg_dump --create, and
// without its mark.
func TestExternalDatabaseAdoptsRestoredDatabase(t *testing.T) {
	t.Parallel()
	for name, marked := range map[string]bool{"with its mark": true, "without its mark": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newExternal(t, sharedServer(t), nil)
			e.create(t, nil)
			before := e.ready(t).Status.ExternalID
			mark := e.query(t, "postgres", "select shobj_description(oid, 'pg_database') from pg_database where "+
				"datname = 'database'")
			e.exec(t, "postgres", "DROP DATABASE @database WITH (FORCE)")
			e.touch(t)
			e.wantMessage(t, "DatabaseGone", true)
			e.exec(t, "postgres", "CREATE DATABASE @database OWNER @owner")
			if marked {
				e.exec(t, "postgres", "COMMENT ON DATABASE @database IS '"+mark+"'")
			} else {
				e.touch(t)
				e.wantMessage(t, "NameConflict", true)
				_, sql, _ := strings.Cut(message(e.reason(t, "NameConflict")), handOverWords)
				e.exec(t, "postgres", sql)
			}
			e.touch(t)
			if after := e.ready(t).Status.ExternalID; after == before {
				t.Error("status.externalID does not change with the database")
			}
			e.wantOwnerLogin(t)
		})
	}
}

func TestExternalDatabaseWritesNothingToReplacedServer(t *testing.T) {
	t.Parallel()
	e := newExternal(t, sharedServer(t), nil)
	e.create(t, nil)
	e.ready(t)
	other := ownServer(t)
	updateConnection(t, e.namespace, "server", connectionTo(other))
	e.wantMessage(t, "ServerReplaced", true, "its system identifier is", "deletionPolicy to Retain")
	there := &external{namespace: e.namespace, server: other}
	there.wantLeft(t, "0")
	e.delete(t)
	e.wantMessage(t, "ServerReplaced", true, "its system identifier is")
	there.wantLeft(t, "0")
	e.wantLeft(t, "2")
	updateConnection(t, e.namespace, "server", connectionTo(e.server))
	e.waitDeleted(t)
	e.wantLeft(t, "0")
}
