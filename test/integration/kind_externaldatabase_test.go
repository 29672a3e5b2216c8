//go:build integration

package integration

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/place"
	"windlass.dev/windlass/test/world"
)

var externalDatabases = kindOf[v1alpha1.ExternalDatabaseSpec]{
	resource: "externaldatabase",
	children: []childType{{
		GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, child: "shop-credentials",
		theirs: `{"apiVersion":"v1","kind":"Secret","stringData":{"password":"theirs"}}`,
		// The password is of its own, and so are the names, on a server that all share.
		undecided: [][]string{{"data", "password"}, {"data", "uri"}, {"data", "pgpass"}, {"data", "dbname"}, {"data", "username"}},
		unwatched: [][]string{{"data", "password"}},
	}},
	everything: world.EverythingOfExternalDatabase,
	refers: func(t *testing.T, on *place.Place, namespace string) {
		t.Helper()
		createConnection(t, on, namespace, "server", connectionTo(outside(t)))
		createConnection(t, on, namespace, "other", with(connectionTo(outside(t)), "host", "localhost"))
	},
	make: func(t *testing.T, on *place.Place, namespace string, spec v1alpha1.ExternalDatabaseSpec) {
		t.Helper()
		on.CreateExternalDatabase(t, namespace, "shop", ofNamespace(spec, namespace))
	},
	set: func(t *testing.T, namespace string, spec v1alpha1.ExternalDatabaseSpec) {
		t.Helper()
		shared.UpdateExternalDatabase(t, namespace, "shop", func(db *v1alpha1.ExternalDatabase) { db.Spec = ofNamespace(spec, namespace) })
	},
	isReady: func(t *testing.T, on *place.Place, namespace string) {
		t.Helper()
		on.ExternalDatabaseIn(t, namespace, "shop", v1alpha1.ExternalDatabaseReady)
	},
	hasReason: func(t *testing.T, namespace, reason string) {
		t.Helper()
		shared.ExternalDatabaseReason(t, namespace, "shop", reason)
	},
	costs: func(namespace string) []string {
		return []string{
			"get secrets " + namespace + "/server",
			"patch externaldatabases " + namespace + "/shop", // the finalizer
			"create secrets " + namespace + "/shop-credentials",
			"update externaldatabases/status " + namespace + "/shop", // Creating
			"get externaldatabases " + namespace + "/shop",           // is it still there?
			"update externaldatabases/status " + namespace + "/shop", // Ready
		}
	},
	restarts: func(namespace string) []string { return []string{"get secrets " + namespace + "/server"} },
	changes:  world.ChangesOfExternalDatabase,
	fixed:    []string{"databaseName", "owner"},
}

// ofNamespace is a spec with names of its own on a server that all share.
func ofNamespace(spec v1alpha1.ExternalDatabaseSpec, namespace string) v1alpha1.ExternalDatabaseSpec {
	spec.DatabaseName, spec.Owner = spec.DatabaseName+"-"+namespace, spec.Owner+"-"+namespace
	return spec
}
