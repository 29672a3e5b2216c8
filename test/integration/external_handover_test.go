//go:build integration

package integration

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/postgres"
)

const handOverWords = "ask the administrator of the server to run: "

// handOver is a server with roles and databases that existed before their ExternalDatabases. The tests use the
// privileges of the administrator in the connection Secret.
type handOver struct {
	namespace  string
	connection map[string]string
	// superuser is set if the test can log in as a superuser.
	superuser *postgres.Server
}

// handOverServers has functions that create servers as teams usually create them.
var handOverServers = map[string]func(t *testing.T) *handOver{
	"made as by the official image": func(t *testing.T) *handOver {
		server, err := postgres.NewServerOf(t.Context(), "shop")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Remove)
		h := newHandOver(t, server, withKey(connectionTo(server), "dbname", "shop"))
		h.execIn(t, "postgres", "CREATE DATABASE shop")
		return h
	},
	"with the bootstrap superuser": func(t *testing.T) *handOver {
		server := ownServer(t)
		return newHandOver(t, server, connectionTo(server))
	},
	"with a CREATEROLE administrator": func(t *testing.T) *handOver {
		server := ownServer(t)
		h := newHandOver(t, server, connectionTo(server))
		h.execIn(t, "postgres", "CREATE ROLE keeper LOGIN CREATEROLE CREATEDB PASSWORD 'of-the-keeper'")
		h.connection["username"], h.connection["password"] = "keeper", "of-the-keeper"
		updateConnection(t, h.namespace, "server", h.connection)
		return h
	},
	"a Database": func(t *testing.T) *handOver {
		s := newServer(t, func(spec *v1alpha1.DatabaseSpec) {
			spec.OwnerAttributes = []v1alpha1.OwnerAttribute{v1alpha1.OwnerCreateDB, v1alpha1.OwnerCreateRole}
		})
		h := &handOver{namespace: s.namespace, connection: map[string]string{}}
		for key, value := range shared.Credentials(t, s.namespace, "shop").Data {
			h.connection[key] = string(value)
		}
		delete(h.connection, "uri")
		h.connection["host"], h.connection["port"] = "127.0.0.1", s.pod.Port
		h.connection["sslmode"] = "verify-ca" // the certificate does not have the address of this machine
		createConnection(t, shared, s.namespace, "server", h.connection)
		return h
	},
}

func newHandOver(t *testing.T, server *postgres.Server, connection map[string]string) *handOver {
	h := &handOver{namespace: shared.NewNamespace(t), connection: maps.Clone(connection), superuser: server}
	createConnection(t, shared, h.namespace, "server", h.connection)
	return h
}

// connect logs in to a database as a role.
func (h *handOver) connect(ctx context.Context, role, password, database string) (*pgx.Conn, error) {
	mode := h.connection["sslmode"]
	if mode != "disable" {
		mode = "require"
	}
	config, err := pgx.ParseConfig("host=127.0.0.1 sslmode=" + mode)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(h.connection["port"], 10, 16)
	if err != nil {
		return nil, err
	}
	config.Port, config.User, config.Password, config.Database = uint16(port), role, password, database
	return pgx.ConnectConfig(ctx, config)
}

// execIn executes statements in a database, as the administrator in the connection Secret.
func (h *handOver) execIn(t *testing.T, database string, statements ...string) {
	t.Helper()
	conn, err := h.connect(t.Context(), h.connection["username"], h.connection["password"], database)
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

// state returns the attributes of roles, the privileges of databases, and the memberships on the server, by name. It
// skips the roles and databases in except. The text "members of ROLE" in except skips the members of a role.
func (h *handOver) state(t *testing.T, except ...string) map[string]string {
	t.Helper()
	roles := "SELECT 'role ' || rolname, rolname::text, '', row_to_json(r)::text FROM pg_roles r"
	user, password := h.connection["username"], h.connection["password"]
	if h.superuser != nil {
		roles = "SELECT 'role ' || rolname, rolname::text, '', row_to_json(r)::text FROM pg_authid r"
		user, password = h.superuser.Superuser, h.superuser.Password
	}
	conn, err := h.connect(t.Context(), user, password, "postgres")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	rows, err := conn.Query(t.Context(), roles+` UNION ALL
		SELECT 'database ' || datname, datname, '',
			concat_ws(' ', oid, pg_get_userbyid(datdba), datacl, datallowconn, datconnlimit, datistemplate)
		FROM pg_database UNION ALL
		SELECT concat('member ', member, ' of ', roleid, ' by ', grantor), 'members of ' || pg_get_userbyid(roleid),
			pg_get_userbyid(member), admin_option::text FROM pg_auth_members`)
	if err != nil {
		t.Fatal(err)
	}
	state := map[string]string{}
	var name, object, member, text string
	if _, err := pgx.ForEachRow(rows, []any{&name, &object, &member, &text}, func() error {
		if !slices.Contains(except, object) && !slices.Contains(except, member) {
			state[name] = text
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return state
}

// message returns the message of an ExternalDatabase with a reason.
func (h *handOver) message(t *testing.T, name, reason string) string {
	t.Helper()
	return message(shared.ExternalDatabaseReason(t, h.namespace, name, reason))
}

// create creates an ExternalDatabase.
func (h *handOver) create(t *testing.T, name, owner, database string) {
	t.Helper()
	shared.CreateExternalDatabase(t, h.namespace, name, v1alpha1.ExternalDatabaseSpec{
		ConnectionSecretRef: v1alpha1.SecretReference{Name: "server"},
		DatabaseName:        database, Owner: owner, DeletionPolicy: v1alpha1.DeletionRetain,
	})
}

// touch makes the operator reconcile an ExternalDatabase.
func (h *handOver) touch(t *testing.T, name string) {
	t.Helper()
	shared.UpdateExternalDatabase(t, h.namespace, name, func(db *v1alpha1.ExternalDatabase) {
		metav1.SetMetaDataAnnotation(&db.ObjectMeta, "touched", "yes")
	})
}

// wantLogin fails the test unless a login works and can see the table that existed before.
func (h *handOver) wantLogin(t *testing.T, role, password, database string) {
	t.Helper()
	conn, err := h.connect(t.Context(), role, password, database)
	if err != nil {
		t.Fatalf("logging in as %q: %v", role, err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), "INSERT INTO precious VALUES (1)"); err != nil {
		t.Errorf("writing as %q: %v", role, err)
	}
}

// wantSame fails the test unless two states are equal.
func wantSame(t *testing.T, before, after map[string]string) {
	t.Helper()
	for name, text := range after {
		if _, known := before[name]; !known {
			t.Errorf("%s is new: %s", name, text)
		}
	}
	for name, text := range before {
		if after[name] != text {
			t.Errorf("%s has changed from %s to %s", name, text, after[name])
		}
	}
}

// created returns the names of the roles, memberships and databases that the operator creates for an owner and a
// database.
func created(owner, database string) []string {
	var names []string
	for _, role := range []string{owner, owner + "-login1", owner + "-login2"} {
		names = append(names, role, "members of "+role)
	}
	return append(names, database)
}

func TestHandedOverRoleKeepsPrivilegesAndPassword(t *testing.T) {
	t.Parallel()
	for server, newServer := range handOverServers {
		t.Run(server, func(t *testing.T) {
			t.Parallel()
			h := newServer(t)
			for n, names := range [][2]string{{"clerk", "orders"}, {`o'wner"; DROP ROLE x; --`, `da"ta$$base`}} {
				owner, database, object := names[0], names[1], fmt.Sprint("existing-", n)
				h.execIn(t, "postgres", "CREATE ROLE "+quoted(owner)+" LOGIN CREATEDB PASSWORD 'of-the-owner'",
					"CREATE ROLE "+quoted("member of "+owner), "GRANT "+quoted(owner)+" TO "+quoted("member of "+owner),
					"GRANT "+quoted(owner)+" TO CURRENT_USER",
					"CREATE DATABASE "+quoted(database)+" OWNER "+quoted(owner))
				use, err := h.connect(t.Context(), owner, "of-the-owner", database)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := use.Exec(t.Context(), "CREATE TABLE precious (n int)"); err != nil {
					t.Fatal(err)
				}
				before := h.state(t)
				h.create(t, object, owner, database)
				_, sql, ok := strings.Cut(h.message(t, object, "NameConflict"), handOverWords)
				if !ok {
					t.Fatal("the message has no statements")
				}
				h.execIn(t, "postgres", sql)
				h.touch(t, object)
				text := h.message(t, object, "PasswordUnknown")
				wantSame(t, before, h.state(t))
				if n == 0 {
					patchSecret(t, h.namespace, object+"-credentials", `{"stringData":{"password":"of-the-owner"}}`)
				} else {
					follow(t, text)
				}
				shared.ExternalDatabaseIn(t, h.namespace, object, v1alpha1.ExternalDatabaseReady)
				wantSame(t, before, h.state(t, owner+"-login1", "members of "+owner+"-login1"))
				if _, err := use.Exec(t.Context(), "INSERT INTO precious VALUES (1)"); err != nil {
					t.Errorf("a session of the owner has ended: %v", err)
				}
				_ = use.Close(t.Context())
				h.wantLogin(t, owner, "of-the-owner", database)
				secret := shared.Credentials(t, h.namespace, object)
				h.wantLogin(t, string(secret.Data["username"]), string(secret.Data["password"]), database)
			}
		})
	}
}

// TestConflictWithoutDatabase hands over a role whose database does not exist.
func TestConflictWithoutDatabase(t *testing.T) {
	t.Parallel()
	for server, newServer := range handOverServers {
		t.Run(server, func(t *testing.T) {
			t.Parallel()
			h := newServer(t)
			h.execIn(t, "postgres", "CREATE ROLE clerk LOGIN CREATEDB PASSWORD 'of-the-owner'")
			before := h.state(t, "members of clerk")
			h.create(t, "existing", "clerk", "orders")
			_, sql, _ := strings.Cut(h.message(t, "existing", "NameConflict"), handOverWords)
			h.execIn(t, "postgres", sql)
			h.touch(t, "existing")
			h.message(t, "existing", "PasswordUnknown")
			patchSecret(t, h.namespace, "existing-credentials", `{"stringData":{"password":"of-the-owner"}}`)
			shared.ExternalDatabaseIn(t, h.namespace, "existing", v1alpha1.ExternalDatabaseReady)
			// An administrator that is not a superuser becomes a member of the role to create the database.
			wantSame(t, before, h.state(t, "members of clerk", "orders"))
		})
	}
}

// TestAdministratorCannotBeOwner sets the administrator as the owner, and then follows the advice in the message.
func TestAdministratorCannotBeOwner(t *testing.T) {
	t.Parallel()
	for server, newServer := range handOverServers {
		t.Run(server, func(t *testing.T) {
			t.Parallel()
			h := newServer(t)
			administrator := h.connection["username"]
			if administrator == "postgres" { // the API server rejects this name
				administrator = "replicator"
				h.execIn(t, "postgres", "CREATE ROLE replicator LOGIN REPLICATION", "CREATE DATABASE replicator")
			}
			before := h.state(t)
			h.create(t, "administrator", "", administrator)
			text := h.message(t, "administrator", "RoleProtected")
			if strings.Contains(text, handOverWords) || !strings.Contains(text, "another spec.owner") {
				t.Errorf("the message is %s", text)
			}
			wantSame(t, before, h.state(t))
			h.create(t, "other", "other", "other")
			shared.ExternalDatabaseIn(t, h.namespace, "other", v1alpha1.ExternalDatabaseReady)
			wantSame(t, before, h.state(t, created("other", "other")...))
			h.execIn(t, "postgres", "CREATE ROLE legacy", "GRANT legacy TO CURRENT_USER", "CREATE DATABASE old OWNER legacy")
			before = h.state(t)
			h.create(t, "database", "modern", "old")
			const proposal = `another spec.databaseName, or with spec.owner: "legacy"`
			if text := h.message(t, "database", "NameConflict"); strings.Contains(text, handOverWords) ||
				!strings.Contains(text, proposal) {
				t.Errorf("the message is %s", text)
			}
			wantSame(t, before, h.state(t))
		})
	}
}

// TestOwnerThatBecomesSuperuserIsReported makes a role that the operator has created a superuser.
func TestOwnerThatBecomesSuperuserIsReported(t *testing.T) {
	t.Parallel()
	e := newExternal(t, sharedServer(t), nil)
	e.create(t, nil)
	e.ready(t)
	e.exec(t, "postgres", "ALTER ROLE @owner SUPERUSER")
	e.unchanged(t, "postgres", roleAndDatabase, func() {
		e.touch(t)
		e.wantMessage(t, "RoleProtected", true, "is a superuser")
	})
	e.exec(t, "postgres", "ALTER ROLE @owner NOSUPERUSER")
	e.touch(t)
	e.ready(t)
}

// TestHandedOverAlternateLoginIsUsed creates a role with the name of an alternate login before the operator creates
// this login.
func TestHandedOverAlternateLoginIsUsed(t *testing.T) {
	t.Parallel()
	e := newExternal(t, sharedServer(t), nil)
	e.create(t, nil)
	e.ready(t)
	login := e.spec().Owner + "-login1"
	e.exec(t, "postgres", "CREATE ROLE "+quoted(login)+" LOGIN CREATEDB PASSWORD 'of-others'")
	const ofOwner = "select rolpassword from pg_authid where rolname = 'owner'"
	e.unchanged(t, "postgres", ofOwner, func() {
		e.update(t, func(db *v1alpha1.ExternalDatabase) {
			metav1.SetMetaDataAnnotation(&db.ObjectMeta, "windlass.dev/rotate-credentials", "1")
		})
		var sql string
		shared.ExternalDatabaseWith(t, e.namespace, "shop", "blocked", func(db *v1alpha1.ExternalDatabase) (blocked bool) {
			if db.Status.Credentials != nil {
				_, sql, blocked = strings.Cut(db.Status.Credentials.WaitingFor, handOverWords)
			}
			return blocked
		})
		e.exec(t, "postgres", sql)
		e.touch(t)
		shared.ExternalDatabaseWith(t, e.namespace, "shop", "Ready with the next login",
			func(db *v1alpha1.ExternalDatabase) bool {
				of := db.Status.Credentials
				return db.Status.Phase == v1alpha1.ExternalDatabaseReady && of != nil && of.Username == login
			})
		e.wantOwnerLogin(t)
	})
}
