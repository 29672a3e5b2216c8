//go:build integration

package integration

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

var externalDatabases = kindOf[v1alpha1.ExternalDatabaseSpec]{
	owner: owner{
		name:     "externaldatabase",
		concerns: inNamespaceOf,
		children: []childType{{
			GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, child: "shop-credentials",
			theirs: `{"apiVersion":"v1","kind":"Secret","stringData":{"password":"theirs"}}`,
			// Each ExternalDatabase has its own password, and its own names on the shared server.
			undecided: [][]string{
				{"data", "password"}, {"data", "uri"}, {"data", "pgpass"}, {"data", "dbname"}, {"data", "username"},
			},
			unwatched: [][]string{{"data", "password"}},
		}},
		prepare: func(t *testing.T, on *framework.Installation, namespace string) {
			t.Helper()
			createConnection(t, on, namespace, "server", connectionTo(sharedServer(t)))
			createConnection(t, on, namespace, "other", withKey(connectionTo(sharedServer(t)), "host", "localhost"))
		},
		ready: func(t *testing.T, on *framework.Installation, namespace string) {
			t.Helper()
			on.ExternalDatabaseIn(t, namespace, "shop", v1alpha1.ExternalDatabaseReady)
		},
		waitForReason: func(t *testing.T, namespace, reason string) {
			t.Helper()
			shared.ExternalDatabaseReason(t, namespace, "shop", reason)
		},
		requests: func(namespace string) []string {
			return []string{
				"get secrets " + namespace + "/server",
				"patch externaldatabases " + namespace + "/shop", // the finalizer
				"create secrets " + namespace + "/shop-credentials",
				"update externaldatabases/status " + namespace + "/shop", // Creating
				"get externaldatabases " + namespace + "/shop",           // confirms that the ExternalDatabase exists
				// confirms the login before the first statement changes the server
				"get secrets " + namespace + "/shop-credentials",
				"update externaldatabases/status " + namespace + "/shop", // Ready
			}
		},
		restart: func(namespace string) []string { return []string{"get secrets " + namespace + "/server"} },
	},
	everything: framework.EverythingOfExternalDatabase,
	createWithSpec: func(t *testing.T, on *framework.Installation, namespace string, spec v1alpha1.ExternalDatabaseSpec) {
		t.Helper()
		on.CreateExternalDatabase(t, namespace, "shop", ofNamespace(spec, namespace))
	},
	setSpec: func(t *testing.T, namespace string, spec v1alpha1.ExternalDatabaseSpec) {
		t.Helper()
		shared.UpdateExternalDatabase(t, namespace, "shop", func(db *v1alpha1.ExternalDatabase) {
			db.Spec = ofNamespace(spec, namespace)
		})
	},
	changes: framework.ChangesOfExternalDatabase,
	fixed:   []string{"databaseName", "owner"},
}

// ofNamespace appends the namespace to the names of the database and its owner, so that they are unique on the shared
// server.
func ofNamespace(spec v1alpha1.ExternalDatabaseSpec, namespace string) v1alpha1.ExternalDatabaseSpec {
	spec.DatabaseName, spec.Owner = spec.DatabaseName+"-"+namespace, spec.Owner+"-"+namespace
	return spec
}
