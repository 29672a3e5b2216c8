package app

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/conditions"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/kindtest"
)

func TestReconcileRejectsSecretOfDatabaseOfAnotherKind(t *testing.T) {
	yes := true
	owned := func(apiVersion, kind, name string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db-credentials",
			Labels: map[string]string{controller.ManagedByLabel: controller.ManagedByWindlass},
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: apiVersion, Kind: kind, Name: name, UID: "x", Controller: &yes},
			}}}
	}
	const ours = "windlass.dev/v1alpha1"
	for name, c := range map[string]struct {
		kind   string
		secret *corev1.Secret
		want   string
	}{
		"the Secret of the Database that the App names":       {"Database", owned(ours, "Database", "db"), ""},
		"the Secret of a Database, and the App names no kind": {"", owned(ours, "Database", "db"), ""},
		"the Secret of the ExternalDatabase that the App names": {
			"ExternalDatabase", owned(ours, "ExternalDatabase", "db"), "",
		},
		"the Secret of an ExternalDatabase, and the App names a Database": {
			"Database", owned(ours, "ExternalDatabase", "db"), "Secret db-credentials belongs to ExternalDatabase db, but " +
				"databaseRef names Database db. Set databaseRef.kind to ExternalDatabase, or databaseRef.name to another " +
				"Database.",
		},
		"the Secret of a Database, and the App names an ExternalDatabase": {
			"ExternalDatabase", owned(ours, "Database", "db"), "Secret db-credentials belongs to Database db, but databaseRef " +
				"names ExternalDatabase db. Set databaseRef.kind to Database, or databaseRef.name to another ExternalDatabase.",
		},
		"a Secret without an owner": {
			"Database", &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db-credentials"}}, "",
		},
		"a Secret of another operator": {"Database", owned("external-secrets.io/v1", "ExternalSecret", "db"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, example(func(app *v1alpha1.App) {
				app.Spec.DatabaseRef = &v1alpha1.DatabaseReference{Kind: c.kind, Name: "db"}
			}), c.secret,
				readyDatabase(), readyExternalDatabase())
			controllertest.ErrorContains(t, c.want, f.Reconcile().Err)
		})
	}
}

func readyDatabase() *v1alpha1.Database {
	db := &v1alpha1.Database{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db"}}
	conditions.True(&db.Status.Conditions, conditions.Ready, "Available", "")
	return db
}

func readyExternalDatabase() *v1alpha1.ExternalDatabase {
	db := &v1alpha1.ExternalDatabase{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db"}}
	conditions.True(&db.Status.Conditions, conditions.Ready, "Available", "")
	return db
}

// databaseSecret returns the connection Secret as the operator creates it for the Database db.
func databaseSecret() *corev1.Secret {
	s := managed("db-credentials")
	s.OwnerReferences = []metav1.OwnerReference{
		{APIVersion: "windlass.dev/v1alpha1", Kind: "Database", Name: "db", UID: "x", Controller: ptr.To(true)},
	}
	return s
}

func TestFirstPodsWaitUntilDatabaseIsReady(t *testing.T) {
	db := readyDatabase()
	conditions.False(&db.Status.Conditions, conditions.Ready, "Starting", "PostgreSQL is starting.")
	f := newFixture(t, example(withDatabase), databaseSecret(), db)
	controllertest.ErrorContains(t, "Waiting for Database db, which databaseRef names, to become Ready (the reason "+
		"of its condition Ready is Starting).", f.Reconcile().Err)
	controllertest.Equal(t, "Deployment", nil, f.deployment())
	controllertest.Equal(t, "phase", v1alpha1.AppPending, f.Object().Status.Phase)
	kindtest.Change(f.Cluster, "default", "db", func(db *v1alpha1.Database) {
		conditions.True(&db.Status.Conditions, conditions.Ready, "Available", "")
	})
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	if f.deployment() == nil {
		t.Fatal("the App has no Deployment although its Database is Ready")
	}
	kindtest.Change(f.Cluster, "default", "db", func(db *v1alpha1.Database) {
		conditions.False(&db.Status.Conditions, conditions.Ready, "Starting", "PostgreSQL is starting.")
	})
	f.rollOut()
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	controllertest.Equal(t, "phase while the Database restarts", v1alpha1.AppReady, f.Object().Status.Phase)
}

func TestAppWaitsForWhatIsMissing(t *testing.T) {
	const (
		database = "Waiting for Database db, which databaseRef names, to be created"
		payment  = "Waiting for Secret payment, which the spec names, to be created"
	)
	withPayment := func(app *v1alpha1.App) {
		app.Spec.EnvFrom = []corev1.EnvFromSource{{
			SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "payment"}},
		}}
	}
	for name, c := range map[string]struct {
		app      *v1alpha1.App
		unsynced bool
		want     string
	}{
		"the Database":                    {example(withDatabase), false, database + "."},
		"the Database and another Secret": {example(withDatabase, withPayment), false, database + "; " + payment},
		"the Secret, and nobody knows Databases": {
			example(withDatabase), true, "Waiting for Secret db-credentials, which the spec names, to be created.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, c.app)
			*f.unsynced = c.unsynced
			r := f.Reconcile()
			controllertest.Equal(t, "message", c.want, conditions.Find(f.Object().Status.Conditions, conditions.Ready).Message)
			controllertest.Equal(t, "retry", missingRecheck, controllertest.RetryAfter(t, r.Result, r.Err))
		})
	}
}

func TestAppIsNotReadyWithoutItsDatabase(t *testing.T) {
	for name, c := range map[string]struct {
		change func(fixture)
		synced bool
		reason string
	}{
		"the Database is being deleted": {func(f fixture) {
			kindtest.Change(f.Cluster, "default", "db", func(db *v1alpha1.Database) {
				db.DeletionTimestamp = ptr.To(metav1.Now())
			})
		}, true, "DatabaseTerminating"},
		"the Database is gone": {
			func(f fixture) { f.Remove(readyDatabase()) }, true, "DependencyMissing",
		},
		"the Database and its Secret are gone": {
			func(f fixture) { f.Remove(readyDatabase(), databaseSecret()) }, true, "DependencyMissing",
		},
		"the cache of Databases has not synced":         {func(f fixture) { f.Remove(readyDatabase()) }, false, "Available"},
		"the Database is Ready, and its cache complete": {func(fixture) {}, true, "Available"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, example(withDatabase), databaseSecret(), readyDatabase())
			f.Reconcile()
			f.rollOut()
			f.Reconcile()
			before := f.deployment()
			c.change(f)
			*f.unsynced = !c.synced
			f.Reconcile()
			controllertest.Equal(t, "reason", c.reason, conditions.Find(f.Object().Status.Conditions, conditions.Ready).Reason)
			controllertest.Equal(t, "Deployment", before, f.deployment())
		})
	}
}
