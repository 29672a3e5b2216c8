//go:build integration

package integration

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
	"windlass.dev/windlass/test/postgres"
)

// startSharedServer starts a PostgreSQL server outside of the cluster in the first call. Each call returns this
// server.
var startSharedServer = sync.OnceValues(func() (*postgres.Server, error) {
	return postgres.NewServer(context.Background())
})

// sharedServer returns the PostgreSQL server outside of the cluster that tests share. A test must not stop or
// reconfigure this server.
func sharedServer(t *testing.T) *postgres.Server {
	t.Helper()
	server, err := startSharedServer()
	if err != nil {
		t.Fatal(err)
	}
	return server
}

// removeSharedServer removes the shared server. If no test has started the server, removeSharedServer starts it first.
func removeSharedServer() {
	if server, err := startSharedServer(); err == nil {
		server.Remove()
	}
}

// ownServer returns a PostgreSQL server for one test. The test may stop or reconfigure the server.
func ownServer(t *testing.T, settings ...string) *postgres.Server {
	t.Helper()
	server, err := postgres.NewServer(t.Context(), settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Remove)
	return server
}

// connectionTo returns the data of a connection Secret for a server.
func connectionTo(server *postgres.Server) map[string]string {
	return map[string]string{
		"host": "127.0.0.1", "port": server.Port, "username": server.Superuser, "password": server.Password,
		"sslmode": "disable",
	}
}

// throughProxy returns the data of a connection Secret for a server behind a proxy.
func throughProxy(proxy *postgres.Proxy, server *postgres.Server) map[string]string {
	return withKey(connectionTo(server), "port", proxy.Port)
}

// withKey returns a copy of the data of a connection Secret with one key changed.
func withKey(connection map[string]string, key, value string) map[string]string {
	connection = maps.Clone(connection)
	connection[key] = value
	return connection
}

func createConnection(t *testing.T, on *framework.Installation, namespace, name string, data map[string]string) {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: data}
	if _, err := on.Kube.CoreV1().Secrets(namespace).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatalf("creating Secret %s: %v", name, err)
	}
}

func updateConnection(t *testing.T, namespace, name string, data map[string]string) {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: data}
	if _, err := shared.Kube.CoreV1().Secrets(namespace).Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
		t.Fatalf("updating Secret %s: %v", name, err)
	}
}

// external is an ExternalDatabase "shop" in its own namespace, and the PostgreSQL server of its database.
type external struct {
	namespace string
	server    *postgres.Server
}

// spec returns a spec with a role and a database that no other test uses.
func (e *external) spec() v1alpha1.ExternalDatabaseSpec {
	return ofNamespace(v1alpha1.ExternalDatabaseSpec{
		ConnectionSecretRef: v1alpha1.SecretReference{Name: "server"}, DatabaseName: "shop", Owner: "clerk",
		DeletionPolicy: v1alpha1.DeletionDelete,
	}, e.namespace)
}

// newExternal creates a namespace with a connection Secret. connection is the data of the Secret; if it is nil, the
// Secret has the data for server.
func newExternal(t *testing.T, server *postgres.Server, connection map[string]string) *external {
	t.Helper()
	e := &external{namespace: shared.NewNamespace(t), server: server}
	if connection == nil {
		connection = connectionTo(server)
	}
	createConnection(t, shared, e.namespace, "server", connection)
	return e
}

// create creates the ExternalDatabase. If change is not nil, it modifies the spec before the creation.
func (e *external) create(t *testing.T, change func(*v1alpha1.ExternalDatabaseSpec)) {
	t.Helper()
	spec := e.spec()
	if change != nil {
		change(&spec)
	}
	shared.CreateExternalDatabase(t, e.namespace, "shop", spec)
}

func (e *external) ready(t *testing.T) *v1alpha1.ExternalDatabase {
	t.Helper()
	return shared.ExternalDatabaseIn(t, e.namespace, "shop", v1alpha1.ExternalDatabaseReady)
}

func (e *external) reason(t *testing.T, reason string) *v1alpha1.ExternalDatabase {
	t.Helper()
	return shared.ExternalDatabaseReason(t, e.namespace, "shop", reason)
}

func (e *external) update(t *testing.T, change func(*v1alpha1.ExternalDatabase)) {
	t.Helper()
	shared.UpdateExternalDatabase(t, e.namespace, "shop", change)
}

// touch changes an annotation, so that the controller reconciles the ExternalDatabase.
func (e *external) touch(t *testing.T) {
	t.Helper()
	e.update(t, func(db *v1alpha1.ExternalDatabase) {
		metav1.SetMetaDataAnnotation(&db.ObjectMeta, "touched",
			fmt.Sprint(len(db.Annotations["touched"]))+db.Annotations["touched"])
	})
}

func (e *external) delete(t *testing.T) {
	t.Helper()
	err := shared.Windlass.WindlassV1alpha1().ExternalDatabases(e.namespace).Delete(t.Context(), "shop",
		metav1.DeleteOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func (e *external) waitDeleted(t *testing.T) {
	t.Helper()
	framework.Eventually(t, "the ExternalDatabase to be deleted", func(ctx context.Context) (bool, error) {
		list, err := shared.Windlass.WindlassV1alpha1().ExternalDatabases(e.namespace).List(ctx, metav1.ListOptions{})
		return err == nil && len(list.Items) == 0, err
	})
}

func quoted(name string) string { return pgx.Identifier{name}.Sanitize() }

// exec executes statements in a database, as the superuser. withNames describes the placeholders in the statements.
func (e *external) exec(t *testing.T, database string, statements ...string) {
	t.Helper()
	conn, err := e.server.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for _, sql := range statements {
		if _, err := conn.Exec(t.Context(), e.withNames(sql)); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

// query runs a query in a database as the superuser, and returns its only value. withNames describes the
// placeholders in the query.
func (e *external) query(t *testing.T, database, sql string) string {
	t.Helper()
	conn, err := e.server.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var value any
	if err := conn.QueryRow(t.Context(), e.withNames(sql)).Scan(&value); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return fmt.Sprint(value)
}

// connect connects as the owner with the uri of the Secret, but never through a proxy.
func (e *external) connect(ctx context.Context, t *testing.T) (*pgx.Conn, error) {
	t.Helper()
	config, err := pgx.ParseConfig(string(shared.Credentials(t, e.namespace, "shop").Data["uri"]))
	if err != nil {
		t.Fatalf("parsing the uri: %v", err)
	}
	port, err := strconv.ParseUint(e.server.Port, 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	config.Port = uint16(port)
	return pgx.ConnectConfig(ctx, config)
}

// wantOwnerLogin fails the test unless the owner can log in with the Secret and write.
func (e *external) wantOwnerLogin(t *testing.T) {
	t.Helper()
	conn, err := e.connect(t.Context(), t)
	if err != nil {
		t.Fatalf("connecting as the owner: %v", err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), "create table if not exists rows (n int); insert into "+
		"rows values (1)"); err != nil {
		t.Errorf("writing as the owner: %v", err)
	}
}

// withNames replaces placeholders in SQL with the names of the role and the database. @owner and @database become
// quoted identifiers, and 'owner' and 'database' become string literals.
func (e *external) withNames(sql string) string {
	spec := e.spec()
	return strings.NewReplacer("@owner", quoted(spec.Owner), "@database", quoted(spec.DatabaseName),
		"'owner'", "'"+spec.Owner+"'", "'database'", "'"+spec.DatabaseName+"'").Replace(sql)
}
