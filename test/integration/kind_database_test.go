//go:build integration

package integration

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/world"
)

var databases = kindOf[v1alpha1.DatabaseSpec]{
	resource: "database",
	children: []childType{
		{
			GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, child: "shop-credentials",
			theirs: `{"apiVersion":"v1","kind":"Secret","stringData":{"password":"theirs"}}`,
			// The password is of its own, and the name is in a namespace of its own.
			undecided: [][]string{{"data", "password"}, {"data", "uri"}, {"data", "pgpass"}, {"data", "host"}},
			unwatched: [][]string{{"data", "password"}},
		},
		{
			GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "services"}, child: "shop",
			theirs:    `{"apiVersion":"v1","kind":"Service","spec":{"ports":[{"port":1}]}}`,
			undecided: [][]string{{"spec", "clusterIP"}, {"spec", "clusterIPs"}},
		},
		{
			GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}, child: "shop",
			theirs:    `{"apiVersion":"v1","kind":"PersistentVolumeClaim","spec":{"accessModes":["ReadWriteMany"],"storageClassName":"","resources":{"requests":{"storage":"1Ki"}}}}`,
			undecided: [][]string{{"spec", "volumeName"}},
			unwatched: [][]string{{"spec", "resources", "requests", "storage"}}, // a volume may be larger
		},
		{
			GroupVersionResource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "statefulsets"}, child: "shop",
			theirs:    `{"apiVersion":"apps/v1","kind":"StatefulSet","spec":{"serviceName":"theirs","selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"theirs","image":"theirs:1"}]}}}}`,
			undecided: [][]string{{"spec", "template", "metadata", "annotations", "windlass.dev/password-digest"}},
		},
	},
	everything: world.EverythingOfDatabase,
	make: func(t *testing.T, on *place, namespace string, spec v1alpha1.DatabaseSpec) {
		t.Helper()
		on.CreateDatabase(t, namespace, "shop", spec)
	},
	set: func(t *testing.T, namespace string, spec v1alpha1.DatabaseSpec) {
		t.Helper()
		shared.UpdateDatabase(t, namespace, "shop", func(db *v1alpha1.Database) { db.Spec = spec })
	},
	isReady: func(t *testing.T, on *place, namespace string) {
		t.Helper()
		on.DatabaseIn(t, namespace, "shop", v1alpha1.DatabaseReady)
	},
	hasReason: func(t *testing.T, namespace, reason string) {
		t.Helper()
		shared.DatabaseReason(t, namespace, "shop", reason)
	},
	costs: func(namespace string) []string {
		return []string{
			"patch databases " + namespace + "/shop", // the finalizer
			"create secrets " + namespace + "/shop-credentials",
			"create services " + namespace + "/shop",
			"create persistentvolumeclaims " + namespace + "/shop",
			"create statefulsets " + namespace + "/shop",
			"update databases/status " + namespace + "/shop", // Deploying
			"update databases/status " + namespace + "/shop", // Ready
		}
	},
	changes: map[string][]func(*v1alpha1.DatabaseSpec){
		"image":        {func(s *v1alpha1.DatabaseSpec) { s.Image = "postgres:17.7" }, func(s *v1alpha1.DatabaseSpec) { s.Image = "" }},
		"storage":      {func(s *v1alpha1.DatabaseSpec) { s.Storage.Size = resource.MustParse("2Gi") }},
		"databaseName": {func(s *v1alpha1.DatabaseSpec) { s.DatabaseName = "else" }, func(s *v1alpha1.DatabaseSpec) { s.DatabaseName = "" }},
		"owner":        {func(s *v1alpha1.DatabaseSpec) { s.Owner = `o'"else` }, func(s *v1alpha1.DatabaseSpec) { s.Owner = "" }},
		"ownerAttributes": {
			func(s *v1alpha1.DatabaseSpec) { s.OwnerAttributes = []v1alpha1.OwnerAttribute{v1alpha1.OwnerCreateDB} },
			func(s *v1alpha1.DatabaseSpec) { s.OwnerAttributes = nil },
		},
		"parameters": {
			func(s *v1alpha1.DatabaseSpec) {
				s.Parameters = map[string]v1alpha1.ParameterValue{"work_mem": "9MB", "max_connections": "9"}
			},
			func(s *v1alpha1.DatabaseSpec) { s.Parameters = nil },
		},
		"resources": {
			func(s *v1alpha1.DatabaseSpec) {
				s.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1.5")}
			},
			func(s *v1alpha1.DatabaseSpec) { s.Resources = corev1.ResourceRequirements{} },
		},
		"deletionPolicy": {func(s *v1alpha1.DatabaseSpec) { s.DeletionPolicy = v1alpha1.DeletionRetain }, func(s *v1alpha1.DatabaseSpec) { s.DeletionPolicy = "" }},
	},
	fixed:  []string{"version"},
	oneWay: []string{"storage"},
}
