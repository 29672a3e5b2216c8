//go:build integration

package integration

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/postgres"
)

// TestExternalDatabaseUsesDatabaseAsServer uses a Database as the server of an ExternalDatabase. The connection Secret
// is a copy of the Database's Secret without the uri and with another host, port and sslmode, because the server runs
// outside of the cluster.
func TestExternalDatabaseUsesDatabaseAsServer(t *testing.T) {
	t.Parallel()
	s := newServer(t, nil)
	data := map[string]string{}
	for key, value := range shared.Credentials(t, s.namespace, "shop").Data {
		data[key] = string(value)
	}
	delete(data, "uri")
	data["host"], data["port"], data["sslmode"] = "127.0.0.1", s.pod.Port, "verify-ca"
	createConnection(t, shared, s.namespace, "server", data)
	shared.CreateExternalDatabase(t, s.namespace, "cart", v1alpha1.ExternalDatabaseSpec{
		ConnectionSecretRef: v1alpha1.SecretReference{Name: "server"}, DatabaseName: "cart",
		Extensions:     []v1alpha1.ExtensionName{"citext"},
		DeletionPolicy: v1alpha1.DeletionDelete,
	})
	denied := shared.ExternalDatabaseReason(t, s.namespace, "cart", "PermissionDenied")
	if !strings.Contains(message(denied), "permission denied to create role") {
		t.Errorf("the message does not contain the server's error: %s", message(denied))
	}
	shared.UpdateDatabase(t, s.namespace, "shop", func(db *v1alpha1.Database) {
		db.Spec.OwnerAttributes = []v1alpha1.OwnerAttribute{v1alpha1.OwnerCreateDB, v1alpha1.OwnerCreateRole}
	})
	s.apply(t)
	shared.UpdateExternalDatabase(t, s.namespace, "cart", func(db *v1alpha1.ExternalDatabase) {
		db.Annotations = map[string]string{"touched": "yes"}
	})
	shared.ExternalDatabaseIn(t, s.namespace, "cart", v1alpha1.ExternalDatabaseReady)
	config, err := postgres.ParseURI(t, shared.Credentials(t, s.namespace, "cart").Data)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatalf("connecting as the owner: %v", err)
	}
	_ = conn.Close(t.Context())
	s.restart(t) // the start script must not change the role of the ExternalDatabase
	deleteExternal(t, s.namespace, "cart")
	s.wants(t, "select count(*) from pg_database where datname = 'cart'", "0")
}
