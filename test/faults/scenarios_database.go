package faults

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

var databases = kind[v1alpha1.DatabaseSpec]{
	name: "database", resource: "databases", orphaned: []string{
		"statefulsets/shop", "secrets/shop-credentials", "persistentvolumeclaims/shop",
	}, fullSpec: withoutPolling, changes: changesWithoutBackup(), createReferences: noAction,
	object: func(_ *user, spec v1alpha1.DatabaseSpec) metav1.Object {
		return &v1alpha1.Database{ObjectMeta: metav1.ObjectMeta{Name: "shop"}, Spec: spec}
	},
}

// withoutPolling returns the spec of a Database with every field but maxSize and backup. The operator polls the server
// of a Database with one of these fields, which have scenarios of their own.
func withoutPolling() v1alpha1.DatabaseSpec {
	spec := framework.EverythingOfDatabase()
	spec.Storage.MaxSize, spec.Backup = nil, nil
	return spec
}

func changesWithoutBackup() map[string][]func(*v1alpha1.DatabaseSpec) {
	changes := maps.Clone(framework.ChangesOfDatabase)
	delete(changes, "backup")
	return changes
}

// backUp turns the backup on.
func backUp(spec *v1alpha1.DatabaseSpec) { spec.Backup = framework.EverythingOfDatabase().Backup }

func noAction(*user) {}

var externalDatabases = kind[v1alpha1.ExternalDatabaseSpec]{
	name: "externaldatabase", resource: "externaldatabases", sql: true, orphaned: []string{
		"secrets/shop-credentials", "sql/database/shop-ns", "sql/role/clerk-ns",
	},
	fullSpec: framework.EverythingOfExternalDatabase, changes: framework.ChangesOfExternalDatabase,
	createReferences: createConnectionSecrets,
	object: func(u *user, spec v1alpha1.ExternalDatabaseSpec) metav1.Object {
		return &v1alpha1.ExternalDatabase{ObjectMeta: metav1.ObjectMeta{Name: "shop"}, Spec: withUniqueNames(spec, u)}
	},
}

// withUniqueNames returns the spec with a database and an owner whose names are unique on the server, because all runs
// share the server.
func withUniqueNames(spec v1alpha1.ExternalDatabaseSpec, u *user) v1alpha1.ExternalDatabaseSpec {
	spec.DatabaseName, spec.Owner = spec.DatabaseName+"-"+u.run.namespace, spec.Owner+"-"+u.run.namespace
	return spec
}

func createConnectionSecrets(u *user) {
	for name, connection := range u.run.sql.connectionSecrets() {
		u.create("", "secrets", &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: connection})
	}
}

// databaseScenarios returns kind.scenarios for Database, and scenarios in which a Database retains its data, or in
// which a foreign Secret has the name of the Database's Secret.
func databaseScenarios() []scenario {
	retained := databases.with(func(s *v1alpha1.DatabaseSpec) { s.DeletionPolicy = v1alpha1.DeletionRetain })
	rotating := databases.with(func(s *v1alpha1.DatabaseSpec) { s.Credentials = shortGrace() })
	growing := databases.with(func(s *v1alpha1.DatabaseSpec) { s.Storage.MaxSize = ptr.To(apiresource.MustParse("8Gi")) })
	return append(databases.scenarios(), databases.driftScenario(),
		scenario{
			name: growingScenario, setUp: []step{growing.create}, steps: []step{fill("900Mi"), fill("1900Mi")},
			invariant: growsThrough("1Gi", "2Gi", "3Gi"), noSecondDeaths: true, // the number of readings varies
		},
		scenario{
			name: backupScenario, setUp: []step{databases.create}, steps: []step{
				databases.update(backUp),
				databases.with(backUp).update(func(s *v1alpha1.DatabaseSpec) { s.Backup.Keep = 3 }),
			}, noSecondDeaths: true, // the number of readings varies
		},
		scenario{
			name: "database-not-backed-up", setUp: []step{databases.with(backUp).create}, steps: []step{
				databases.update(func(s *v1alpha1.DatabaseSpec) { s.Backup = nil }),
			}, noSecondDeaths: true,
		},
		scenario{
			name: "database-retained", setUp: []step{retained.create}, steps: []step{
				retained.delete,
			}, check: leavesOnly("persistentvolumeclaims/shop"),
		},
		scenario{name: "database-taken", setUp: []step{func(u *user) {
			u.create("", "secrets", &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: "shop-credentials"}, StringData: map[string]string{"password": "theirs"},
			})
		}}, steps: []step{databases.create}, foreign: []string{"secrets/shop-credentials"}},
		scenario{
			name: "database-rotated", setUp: []step{rotating.create}, steps: []step{
				rotateCredentials("databases", "1"),
			}, check: hasOneServerLogin, rotates: true,
		},
		scenario{name: "database-rotated-again", setUp: []step{rotating.create, rotateCredentials("databases", "1")},
			steps: []step{rotateCredentials("databases", "2")}, check: hasOneServerLogin, rotates: true, noSecondDeaths: true},
		scenario{
			name: "database-retained-again", setUp: []step{retained.create}, steps: []step{retained.delete, retained.create},
		},
	)
}

func externalDatabaseScenarios() []scenario {
	retained := externalDatabases.with(func(s *v1alpha1.ExternalDatabaseSpec) {
		s.DeletionPolicy = v1alpha1.DeletionRetain
	})
	rotating := externalDatabases.with(func(s *v1alpha1.ExternalDatabaseSpec) { s.Credentials = shortGrace() })
	kept := []string{"sql/database/shop-ns", "sql/role/clerk-ns", "sql/extension/pgcrypto", "sql/extension/plpgsql"}
	return append(externalDatabases.scenarios(), externalDatabases.driftScenario(),
		scenario{
			name: "externaldatabase-retained", sql: true, setUp: []step{retained.create}, steps: []step{
				retained.delete,
			}, check: leavesOnly(kept...),
		},
		scenario{name: "externaldatabase-retained-again", sql: true, setUp: []step{retained.create, retained.delete},
			steps: []step{retained.createObject},
			check: isStalled("externaldatabases/shop")},
		scenario{
			name: "externaldatabase-rotated", sql: true, setUp: []step{rotating.create}, steps: []step{
				rotateCredentials("externaldatabases", "1"),
			}, check: hasOneLogin,
		},
		scenario{
			name: "externaldatabase-rotated-again", sql: true, setUp: []step{
				rotating.create, rotateCredentials("externaldatabases", "1"),
			}, steps: []step{rotateCredentials("externaldatabases", "2")}, check: hasOneLogin, noSecondDeaths: true,
		},
		scenario{name: "externaldatabase-taken", sql: true, setUp: []step{
			func(u *user) { u.run.sql.exec(`CREATE DATABASE "shop-` + u.run.namespace + `"`) },
		},
			steps: []step{externalDatabases.create}, check: isStalled("externaldatabases/shop")},
	)
}

// growingScenario is the name of the scenario in which a volume grows by itself.
const growingScenario = "database-growing"

// backupScenario is the name of the scenario in which a backup is turned on.
const backupScenario = "database-backed-up"

// growsThrough returns a check that the claim requests exactly these sizes, one after the other.
func growsThrough(sizes ...string) func(*user) {
	return func(u *user) {
		var requested []string
		for _, e := range u.run.history.eventsUntil(newestVersion) {
			var claim corev1.PersistentVolumeClaim
			if resources[e.object.resource].Resource != "persistentvolumeclaims" ||
				json.Unmarshal(e.raw, &claim) != nil {
				continue
			}
			if size := claim.Spec.Resources.Requests.Storage().String(); !slices.Contains(requested, size) {
				requested = append(requested, size)
			}
		}
		if !slices.Equal(requested, sizes) {
			u.run.addViolation("the claim requests %v, one after the other, want %v", requested, sizes)
		}
	}
}

// shortGrace returns credentials with a grace period that ends before recording is paused.
func shortGrace() *v1alpha1.CredentialsSpec {
	return &v1alpha1.CredentialsSpec{GracePeriod: &metav1.Duration{Duration: rotationGrace}}
}

// rotateCredentials returns a step that requests a rotation of the credentials of an object.
func rotateCredentials(resource, request string) step {
	return func(u *user) {
		u.patch(windlass, resource, "shop", map[string]any{
			"metadata": map[string]any{"annotations": map[string]string{"windlass.dev/rotate-credentials": request}},
		})
	}
}

// hasOneServerLogin returns a problem unless exactly one role can log in to the server in the Pod, and the login in the
// connection Secret works.
func hasOneServerLogin(o outcome) (problems []string) {
	var logins []string
	for name := range o.final {
		if role, ok := strings.CutPrefix(name, "server/role/"); ok {
			logins = append(logins, role)
		}
	}
	if len(logins) != 1 || !strings.Contains(logins[0], "-login") {
		problems = append(problems, fmt.Sprintf("the roles that can log in are %q, want one alternate", logins))
	}
	if login := o.final["server/login/"+connectionSecret]; login != "works" {
		problems = append(problems, fmt.Sprintf("the login in the connection Secret %v", login))
	}
	return problems
}

// hasOneLogin returns a problem unless exactly one of the roles can log in to the server outside of the cluster, and
// the login in the connection Secret works.
func hasOneLogin(o outcome) (problems []string) {
	logins, roles := 0, 0
	for name, state := range o.final {
		role, found := state.(string)
		if !found || !strings.HasPrefix(name, "sql/role/clerk-ns") {
			continue
		}
		roles++
		if strings.Contains(role, "{f,f,f,t,f,f}") {
			logins++
		}
	}
	if roles < 2 {
		problems = append(problems, "no alternate login exists")
	}
	if logins != 1 {
		problems = append(problems, fmt.Sprintf("%d roles can log in", logins))
	}
	if login := o.final["sql/login/"+connectionSecret]; login != "works" {
		problems = append(problems, fmt.Sprintf("the login in the connection Secret %v", login))
	}
	return problems
}
