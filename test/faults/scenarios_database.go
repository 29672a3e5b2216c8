package faults

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/world"
)

var databases = kind[v1alpha1.DatabaseSpec]{
	name: "database", resource: "databases", left: []string{"statefulsets/shop", "secrets/shop-credentials", "persistentvolumeclaims/shop"}, everything: world.EverythingOfDatabase, changes: world.ChangesOfDatabase, refers: nothing,
	object: func(_ *user, spec v1alpha1.DatabaseSpec) metav1.Object {
		return &v1alpha1.Database{ObjectMeta: metav1.ObjectMeta{Name: "shop"}, Spec: spec}
	},
}

func nothing(*user) {}

var externalDatabases = kind[v1alpha1.ExternalDatabaseSpec]{
	name: "externaldatabase", resource: "externaldatabases", sql: true, left: []string{"secrets/shop-credentials", "sql/database/shop-ns", "sql/role/clerk-ns"},
	everything: world.EverythingOfExternalDatabase, changes: world.ChangesOfExternalDatabase, refers: refersOfExternalDatabase,
	object: func(u *user, spec v1alpha1.ExternalDatabaseSpec) metav1.Object {
		return &v1alpha1.ExternalDatabase{ObjectMeta: metav1.ObjectMeta{Name: "shop"}, Spec: ofScope(spec, u)}
	},
}

// ofScope is a spec with names of its own on a server that all runs share.
func ofScope(spec v1alpha1.ExternalDatabaseSpec, u *user) v1alpha1.ExternalDatabaseSpec {
	spec.DatabaseName, spec.Owner = spec.DatabaseName+"-"+u.run.scope, spec.Owner+"-"+u.run.scope
	return spec
}

func refersOfExternalDatabase(u *user) {
	for name, connection := range u.run.sql.connections() {
		u.create("", "secrets", &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: connection})
	}
}

// databaseScenarios are those of every kind, and a Database whose data goes with it, or
// stays for the next.
func databaseScenarios() []scenario {
	retained := databases.but(func(s *v1alpha1.DatabaseSpec) { s.DeletionPolicy = v1alpha1.DeletionRetain })
	return append(databases.scenarios(), databases.drifted(),
		scenario{name: "database-retained", setUp: []step{retained.create}, steps: []step{retained.delete}, check: leaves("persistentvolumeclaims/shop")},
		scenario{name: "database-taken", setUp: []step{func(u *user) {
			u.create("", "secrets", &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "shop-credentials"}, StringData: map[string]string{"password": "theirs"}})
		}}, steps: []step{databases.create}, foreign: []string{"secrets/shop-credentials"}},
		scenario{name: "database-retained-again", setUp: []step{retained.create}, steps: []step{retained.delete, retained.create}},
	)
}

func externalDatabaseScenarios() []scenario {
	retained := externalDatabases.but(func(s *v1alpha1.ExternalDatabaseSpec) { s.DeletionPolicy = v1alpha1.DeletionRetain })
	kept := []string{"sql/database/shop-ns", "sql/role/clerk-ns", "sql/extension/pgcrypto", "sql/extension/plpgsql"}
	return append(externalDatabases.scenarios(), externalDatabases.drifted(),
		scenario{name: "externaldatabase-retained", sql: true, setUp: []step{retained.create}, steps: []step{retained.delete}, check: leaves(kept...)},
		scenario{name: "externaldatabase-retained-again", sql: true, setUp: []step{retained.create, retained.delete}, steps: []step{retained.recreate},
			check: isRefused("externaldatabases/shop")},
		scenario{name: "externaldatabase-taken", sql: true, setUp: []step{func(u *user) { u.run.sql.exec(`CREATE DATABASE "shop-` + u.run.scope + `"`) }},
			steps: []step{externalDatabases.create}, check: isRefused("externaldatabases/shop")},
	)
}
