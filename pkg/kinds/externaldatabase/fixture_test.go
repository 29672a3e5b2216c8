package externaldatabase

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/conditions"
	"windlass.dev/windlass/pkg/kinds"
	"windlass.dev/windlass/pkg/kinds/internal/kindtest"
	"windlass.dev/windlass/pkg/postgresql"
)

const (
	patchFinalizers = "patch externaldatabases default/shop"
	createSecret    = "create secrets default/shop-credentials"
	patchSecret     = "patch secrets default/shop-credentials"
	updateStatus    = "update externaldatabases/status default/shop"
)

// example returns an ExternalDatabase with the defaults of the schema, after the given changes.
func example(changes ...func(*v1alpha1.ExternalDatabase)) *v1alpha1.ExternalDatabase {
	db := &v1alpha1.ExternalDatabase{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "shop", UID: "shop-uid", ResourceVersion: "1", Generation: 1,
			Finalizers: []string{finalizerName},
		},
		Spec: v1alpha1.ExternalDatabaseSpec{
			ConnectionSecretRef: v1alpha1.SecretReference{Name: "server"}, DatabaseName: "orders", Owner: "clerk",
			Extensions: []v1alpha1.ExtensionName{"citext"}, DeletionPolicy: v1alpha1.DeletionDelete,
		},
	}
	for _, change := range changes {
		change(db)
	}
	return db
}

// bound sets the status of an ExternalDatabase whose Secret was created.
func bound(db *v1alpha1.ExternalDatabase) {
	db.Status.Binding = &v1alpha1.SecretBinding{Name: "shop-credentials"}
}

// known sets the status of an ExternalDatabase whose Secret and database were created.
func known(db *v1alpha1.ExternalDatabase) {
	bound(db)
	db.Status.ExternalID = "1/2"
}

// recreated adds the annotation with which a user requests a new database in place of id.
func recreated(id string) func(*v1alpha1.ExternalDatabase) {
	return func(db *v1alpha1.ExternalDatabase) {
		db.Annotations = map[string]string{"windlass.dev/recreate": id}
	}
}

// retained sets the deletion policy Retain.
func retained(db *v1alpha1.ExternalDatabase) { db.Spec.DeletionPolicy = v1alpha1.DeletionRetain }

// deleted marks an ExternalDatabase as being deleted.
func deleted(db *v1alpha1.ExternalDatabase) { db.DeletionTimestamp = &metav1.Time{Time: time.Now()} }

// orphaning adds the finalizer orphan, so that the deletion of the ExternalDatabase orphans its Secret.
func orphaning(db *v1alpha1.ExternalDatabase) {
	db.Finalizers = append(db.Finalizers, metav1.FinalizerOrphanDependents)
}

// connectionSecret returns the connection Secret, after the given changes.
func connectionSecret(changes ...func(*corev1.Secret)) *corev1.Secret {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "server", UID: "server-uid", ResourceVersion: "7"},
		Data: map[string][]byte{
			"host": []byte("db.example.com"), "username": []byte("admin"), "password": []byte("secret"),
		},
	}
	for _, change := range changes {
		change(s)
	}
	return s
}

// onOtherHost changes the host in a connection Secret.
func onOtherHost(s *corev1.Secret) { s.Data["host"] = []byte("else.example.com") }

// withoutData removes the content of a Secret.
func withoutData(s *corev1.Secret) { s.Data = nil }

// adminSettings is the content of the connection Secret.
var adminSettings = postgresql.Settings{
	Host: "db.example.com", Port: 5432, Username: "admin", Password: "secret", Database: postgresql.DefaultDatabase,
	Mode: postgresql.VerifyFull,
}

// createdSecret returns the owner's Secret as a previous reconcile created it.
func createdSecret(t testing.TB) *corev1.Secret {
	t.Helper()
	f := newFixture(t, nil, example(), connectionSecret())
	if r := f.Reconcile(); controller.ReasonOf(r.Err) != reasonCreating {
		t.Fatalf("creating the Secret: %v", r.Err)
	}
	s := f.secret()
	s.UID, s.ResourceVersion = "secret-uid", "3"
	return s
}

// orphanedSecret returns a copy of the owner's Secret without its owner reference.
func orphanedSecret(s *corev1.Secret) *corev1.Secret {
	s = s.DeepCopy()
	s.OwnerReferences = nil
	return s
}

// current returns a server whose database is in the desired state.
func current() *fakeServer { return &fakeServer{found: postgresql.Found{ID: "1/2", Current: true}} }

// fakeServer is a PostgreSQL server that returns the given results, and records its calls.
type fakeServer struct {
	found               postgresql.Found
	exists, ensure, del error
	rotated, retired    error

	onExists func() // if set, is called by Exists
	onRotate func() // if set, is called by Rotate
	calls    []string
	want     postgresql.Want     // the argument of the last call
	login    string              // the login in the last call of Exists
	admin    postgresql.Settings // the settings in the last call of open
	// passwords are the passwords that Rotate set, by login.
	passwords map[string]string
}

// conflictOf returns an error of a class with the statement that hands an alternate login over.
func conflictOf(class postgresql.Class) error {
	conflict := postgresql.Conflict{Role: true, Statements: `COMMENT ON ROLE "clerk-login1" IS 'mark';`}
	return postgresql.NewConflict(class, conflict, "the server's response")
}

func (s *fakeServer) record(call string, want postgresql.Want) {
	s.calls, s.want = append(s.calls, call), want
}

func (s *fakeServer) Exists(_ context.Context, want postgresql.Want) (postgresql.Found, error) {
	s.record("exists", want)
	s.login = want.Login
	if s.onExists != nil {
		s.onExists()
	}
	return s.found, s.exists
}

func (s *fakeServer) Ensure(_ context.Context, want postgresql.Want) (postgresql.ID, error) {
	s.record("ensure", want)
	return "1/2", s.ensure
}

func (s *fakeServer) Rotate(_ context.Context, want postgresql.Want) error {
	s.record("rotate to "+want.Login, want)
	if s.onRotate != nil {
		s.onRotate()
	}
	if s.passwords == nil {
		s.passwords = map[string]string{}
	}
	s.passwords[want.Login] = want.Password
	if s.rotated == nil {
		s.found.Previous = s.login
	}
	return s.rotated
}

func (s *fakeServer) Retire(_ context.Context, want postgresql.Want) error {
	s.record("retire beside "+want.Login, want)
	if s.retired == nil {
		s.found.Previous = ""
	}
	return s.retired
}

func (s *fakeServer) Delete(_ context.Context, want postgresql.Want) error {
	s.record("delete", want)
	return s.del
}

func (s *fakeServer) Close() { s.calls = append(s.calls, "close") }

// fixture reconciles an ExternalDatabase on fake clientsets and a fake PostgreSQL server.
type fixture struct {
	*kindtest.Fixture[*v1alpha1.ExternalDatabase]
	server *fakeServer
	// users are the users of the previous login.
	users []string
}

// newFixture returns a fixture for db in a cluster that also has the objects others. If postgres is nil,
// the server has no database.
func newFixture(t testing.TB, postgres *fakeServer, db *v1alpha1.ExternalDatabase, others ...runtime.Object) *fixture {
	t.Helper()
	if postgres == nil {
		postgres = &fakeServer{}
	}
	f := &fixture{server: postgres}
	open := func(_ string, admin postgresql.Settings) server {
		postgres.admin = admin
		return postgres
	}
	declared := func(c kinds.Cluster, r controller.Runtime) (controller.Kind[*v1alpha1.ExternalDatabase], error) {
		return declare(c, r, open, func(*corev1.Secret) []string { return f.users }, nil)
	}
	f.Fixture = kindtest.New(t, declared, db, others...)
	return f
}

// secret returns the owner's Secret, or nil.
func (f *fixture) secret() *corev1.Secret {
	return kindtest.Get[*corev1.Secret](f.Cluster, "default", "shop-credentials")
}

// ready returns the condition Ready of the ExternalDatabase.
func (f *fixture) ready() *metav1.Condition {
	return conditions.Find(f.Object().Status.Conditions, conditions.Ready)
}

// connections returns the connections of the reconciler.
func (f *fixture) connections() *connections {
	return f.Pipeline.Reconciler.(*reconciler).connections
}

// rotatingFixture returns an ExternalDatabase that requests a rotation. Its Secret has the first alternate login if
// rotated, the time since the last rotation, is positive.
func rotatingFixture(t testing.TB, server *fakeServer, rotated time.Duration) *fixture {
	t.Helper()
	login := "clerk"
	if rotated > 0 {
		login = "clerk-login1"
	}
	secret := aged(createdSecret(t), time.Now(), 24*time.Hour, rotated, login)
	return newFixture(t, server, example(known, requested("1")), connectionSecret(), secret)
}
