//go:build integration

package integration

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

// certificateKeys are the keys of the CA and of the certificate in the Secrets of a Database.
var certificateKeys = [][]string{{"data", "ca.crt"}, {"data", "ca.key"}, {"data", "tls.crt"}, {"data", "tls.key"}}

var databases = kindOf[v1alpha1.DatabaseSpec]{
	owner: owner{
		name:     "database",
		concerns: inNamespaceOf,
		children: []childType{
			{
				GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, child: "shop-certificate",
				theirs:    `{"apiVersion":"v1","kind":"Secret","stringData":{"password":"theirs"}}`,
				undecided: certificateKeys, // each Database has its own CA
				unwatched: certificateKeys, // a damaged key or certificate is replaced by another one
			},
			{
				GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, child: "shop-credentials",
				theirs: `{"apiVersion":"v1","kind":"Secret","stringData":{"password":"theirs"}}`,
				// Each Database has its own password and CA, and a host name that contains its namespace.
				undecided: [][]string{
					{"data", "password"}, {"data", "uri"}, {"data", "pgpass"}, {"data", "host"}, {"data", "ca.crt"},
				},
				unwatched: [][]string{{"data", "password"}},
			},
			{
				GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, child: "shop-settings",
				theirs: `{"apiVersion":"v1","kind":"Secret","stringData":{"password":"theirs"}}`,
				// Each Secret has its own passwords, certificate, revision and time of the last change.
				undecided: append([][]string{
					{"data", "owner.password"}, {"data", "backup.password"}, {"data", "revision"},
					{"metadata", "annotations", "windlass.dev/settings-changed-at"},
				}, certificateKeys...),
				// A correction gives the Secret a new revision and time, so that the server applies the settings again.
				unwatched: [][]string{
					{"data", "revision"}, {
						"metadata", "annotations", "windlass.dev/settings-changed-at",
					}, {"metadata", "annotations", recordAnnotation},
				},
			},
			{
				GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "services"}, child: "shop",
				theirs:    `{"apiVersion":"v1","kind":"Service","spec":{"ports":[{"port":1}]}}`,
				undecided: [][]string{{"spec", "clusterIP"}, {"spec", "clusterIPs"}},
			},
			{
				GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}, child: "shop",
				theirs: `{"apiVersion":"v1","kind":"PersistentVolumeClaim",` +
					`"spec":{"accessModes":["ReadWriteMany"],"storageClassName":"","resources":{"requests":{"storage":"1Ki"}}}}`,
				undecided: [][]string{{"spec", "volumeName"}, {"metadata", "annotations", "windlass.dev/used-by"}},
				unwatched: [][]string{{"spec", "resources", "requests", "storage"}}, // a claim that has grown cannot shrink
				users:     "shop-0",
			},
			{
				GroupVersionResource: schema.GroupVersionResource{
					Group: "apps", Version: "v1", Resource: "statefulsets",
				}, child: "shop",
				theirs: `{"apiVersion":"apps/v1","kind":"StatefulSet","spec":{"serviceName":"theirs",` +
					`"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},` +
					`"spec":{"containers":[{"name":"theirs","image":"theirs:1"}]}}}}`,
			},
			{
				GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, child: "shop-backup",
				theirs: `{"apiVersion":"v1","kind":"Secret","stringData":{"password":"theirs"}}`,
				// Each Secret has its own password, CA and time of the last request, and a host name that contains its namespace.
				undecided: [][]string{{"data", "password"}, {"data", "request"}, {"data", "ca.crt"}, {"data", "host"}},
				unwatched: [][]string{{"data", "password"}, {"data", "request"}},
				condition: "BackedUp",
			},
			{
				GroupVersionResource: schema.GroupVersionResource{
					Version: "v1", Resource: "persistentvolumeclaims",
				}, child: "shop-backup",
				theirs: `{"apiVersion":"v1","kind":"PersistentVolumeClaim",` +
					`"spec":{"accessModes":["ReadWriteMany"],"storageClassName":"","resources":{"requests":{"storage":"1Ki"}}}}`,
				undecided: [][]string{{"spec", "volumeName"}, {"metadata", "annotations", "windlass.dev/used-by"}},
				unwatched: [][]string{{"spec", "resources", "requests", "storage"}}, // a claim that has grown cannot shrink
				users:     "--selector=app.kubernetes.io/name=database-backup", stays: true, condition: "BackedUp",
			},
			{
				GroupVersionResource: schema.GroupVersionResource{
					Group: "apps", Version: "v1", Resource: "deployments",
				}, child: "shop-backup",
				theirs: `{"apiVersion":"apps/v1","kind":"Deployment","spec":{"selector":{"matchLabels":{"a":"b"}},` +
					`"template":{"metadata":{"labels":{"a":"b"}},` +
					`"spec":{"containers":[{"name":"theirs","image":"theirs:1"}]}}}}`,
				condition: "BackedUp",
			},
		},
		prepare: func(*testing.T, *framework.Installation, string) {},
		ready: func(t *testing.T, on *framework.Installation, namespace string) {
			t.Helper()
			on.DatabaseIn(t, namespace, "shop", v1alpha1.DatabaseReady)
		},
		waitForReason: func(t *testing.T, namespace, reason string) {
			t.Helper()
			shared.DatabaseReason(t, namespace, "shop", reason)
		},
		requests: func(namespace string) []string {
			return []string{
				"patch databases " + namespace + "/shop", // the finalizer
				"create secrets " + namespace + "/shop-certificate",
				"create secrets " + namespace + "/shop-credentials",
				"create secrets " + namespace + "/shop-backup",
				"create secrets " + namespace + "/shop-settings",
				"create services " + namespace + "/shop",
				// confirms that the Database exists, because a claim without an owner would outlive the Database
				"get databases " + namespace + "/shop",
				"create persistentvolumeclaims " + namespace + "/shop",
				"create statefulsets " + namespace + "/shop",
				"create persistentvolumeclaims " + namespace + "/shop-backup",
				"create deployments " + namespace + "/shop-backup",
				"update databases/status " + namespace + "/shop", // Deploying
				"update databases/status " + namespace + "/shop", // Ready
			}
		},
		restart: func(string) []string { return nil },
	},
	everything: framework.EverythingOfDatabase,
	createWithSpec: func(t *testing.T, on *framework.Installation, namespace string, spec v1alpha1.DatabaseSpec) {
		t.Helper()
		on.CreateDatabase(t, namespace, "shop", spec)
	},
	setSpec: func(t *testing.T, namespace string, spec v1alpha1.DatabaseSpec) {
		t.Helper()
		shared.UpdateDatabase(t, namespace, "shop", func(db *v1alpha1.Database) { db.Spec = spec })
	},
	changes:    framework.ChangesOfDatabase,
	fixed:      []string{"version", "restoreFrom"},
	oneWay:     []string{"storage"},
	alone:      []string{"updatePolicy"},
	shortForms: []string{"restoreFrom"}, // it needs a backup of another Database
}
