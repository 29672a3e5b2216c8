package externaldatabase

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/conditions"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/kindtest"
	"windlass.dev/windlass/pkg/postgresql"
)

// onPool makes the connection Secret the Secret of Database pool.
func onPool(db *v1alpha1.ExternalDatabase) {
	db.Spec.ConnectionSecretRef.Name = "pool-credentials"
}

// provenOnPool is like onPool, but the status also names the Database.
func provenOnPool(db *v1alpha1.ExternalDatabase) {
	onPool(db)
	db.Status.ServerDatabase = "pool"
}

// poolSecret returns the Secret that the operator created for Database pool, after the given changes.
func poolSecret(changes ...func(*corev1.Secret)) *corev1.Secret {
	return connectionSecret(append([]func(*corev1.Secret){func(s *corev1.Secret) {
		s.Name, s.Labels = "pool-credentials", map[string]string{controller.ManagedByLabel: controller.ManagedByWindlass}
		s.OwnerReferences = []metav1.OwnerReference{
			{APIVersion: "windlass.dev/v1alpha1", Kind: "Database", Name: "pool", UID: "pool-uid", Controller: ptr.To(true)},
		}
		s.Data["host"] = []byte("pool.default.svc")
	}}, changes...)...)
}

func TestStatusNamesDatabaseOfConnectionSecret(t *testing.T) {
	for name, c := range map[string]struct {
		secret *corev1.Secret
		want   string
	}{
		"the Secret of a Database":   {poolSecret(), "pool"},
		"a Secret with another host": {poolSecret(onOtherHost), ""},
		"a Secret without an owner":  {poolSecret(func(s *corev1.Secret) { s.OwnerReferences = nil }), ""},
		"a Secret that no controller owns": {
			poolSecret(func(s *corev1.Secret) { s.OwnerReferences[0].Controller = nil }), "",
		},
		"a Secret of a Database of other name": {
			poolSecret(func(s *corev1.Secret) { s.OwnerReferences[0].Name = "else" }), "",
		},
		"a Secret of an ExternalDatabase": {
			poolSecret(func(s *corev1.Secret) { s.OwnerReferences[0].Kind = "ExternalDatabase" }), "",
		},
		"a Secret of another group's Database": {
			poolSecret(func(s *corev1.Secret) { s.OwnerReferences[0].APIVersion = "example.com/v1" }), "",
		},
		"a Secret that the operator cannot own": {poolSecret(func(s *corev1.Secret) { s.Labels = nil }), ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil, example(onPool), c.secret)
			r := f.Reconcile()
			controllertest.Equal(t, "reason", reasonCreating, controller.ReasonOf(r.Err))
			controllertest.Equal(t, "serverDatabase with the binding", c.want, f.Object().Status.ServerDatabase)
			controllertest.ErrorContains(t, "", f.Reconcile().Err)
			controllertest.Equal(t, "externalID", "1/2", f.Object().Status.ExternalID)
			controllertest.Equal(t, "serverDatabase with the externalID", c.want, f.Object().Status.ServerDatabase)
		})
	}
}

// TestServerDatabaseAloneCausesNoStatusWrite reconciles a ready ExternalDatabase whose status has no serverDatabase.
func TestServerDatabaseAloneCausesNoStatusWrite(t *testing.T) {
	f := newFixture(t, nil, example(onPool), poolSecret())
	for range 2 {
		_ = f.Reconcile()
	}
	f.server.found = current().found
	f.Change(func(db *v1alpha1.ExternalDatabase) { db.Status.ServerDatabase = "" })
	r := f.Reconcile()
	controllertest.ErrorContains(t, "", r.Err)
	controllertest.Equal(t, "writes", nil, r.Writes)
}

func TestServerDatabaseIsForgottenOnAnotherServer(t *testing.T) {
	server := &fakeServer{} // the database was not found
	db := example(known, provenOnPool, recreated("1/2"), func(db *v1alpha1.ExternalDatabase) {
		db.Spec.ConnectionSecretRef.Name = "server"
	})
	f := newFixture(t, server, db, connectionSecret(), createdSecret(t))
	controllertest.Equal(t, "reason", reasonCreating, controller.ReasonOf(f.Reconcile().Err))
	controllertest.Equal(t, "serverDatabase", "", f.Object().Status.ServerDatabase)
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	controllertest.Equal(t, "serverDatabase on the other server", "", f.Object().Status.ServerDatabase)
}

func TestFinalizeConnectsUnlessTheVolumeGoes(t *testing.T) {
	database := func(gone bool) *v1alpha1.Database {
		d := &v1alpha1.Database{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pool", UID: "pool-uid"}}
		if gone {
			d.DeletionTimestamp, d.Finalizers = ptr.To(metav1.Now()), []string{"windlass.dev/database"}
		}
		return d
	}
	claim := func(gone bool) *corev1.PersistentVolumeClaim {
		c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pool"}}
		if gone {
			c.DeletionTimestamp, c.Finalizers = ptr.To(metav1.Now()), []string{"kubernetes.io/pvc-protection"}
		}
		return c
	}
	elsewhere := func(db *v1alpha1.ExternalDatabase) { db.Spec.ConnectionSecretRef.Name = "server" }
	for name, c := range map[string]struct {
		db       *v1alpha1.ExternalDatabase
		others   []runtime.Object
		connects bool
	}{
		"both are missing": {db: example(known, provenOnPool, deleted)},
		"both are being deleted": {
			db: example(known, provenOnPool, deleted), others: []runtime.Object{database(true), claim(true)},
		},
		"only the claim is left, and goes": {
			db: example(known, provenOnPool, deleted), others: []runtime.Object{claim(true)},
		},
		"only the Database is left, and goes": {
			db: example(known, provenOnPool, deleted), others: []runtime.Object{database(true)},
		},
		"the Database stays": {
			db: example(known, provenOnPool, deleted), others: []runtime.Object{database(false), claim(true)}, connects: true,
		},
		"the Database stays without a claim": {
			db: example(known, provenOnPool, deleted), others: []runtime.Object{database(false)}, connects: true,
		},
		"the volume stays": {
			db: example(known, provenOnPool, deleted), others: []runtime.Object{database(true), claim(false)}, connects: true,
		},
		"the volume stays without its Database": {
			db: example(known, provenOnPool, deleted), others: []runtime.Object{claim(false)}, connects: true,
		},
		"the status names no Database":        {db: example(known, onPool, deleted), connects: true},
		"the connection Secret changed since": {db: example(known, provenOnPool, elsewhere, deleted), connects: true},
		"an outside server has the same Secrets": {
			db: example(known, elsewhere, deleted), others: []runtime.Object{database(true), claim(true)}, connects: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil, c.db, append(c.others, poolSecret(), connectionSecret(), createdSecret(t))...)
			controllertest.ErrorContains(t, "", f.Reconcile().Err)
			var want []string
			if c.connects {
				want = []string{"delete", "close"}
			}
			controllertest.Equal(t, "calls", want, f.server.calls)
			controllertest.Equal(t, "the object has the finalizer", false, f.hasFinalizer())
		})
	}
}

func TestExternalDatabaseWaitsForItsDatabase(t *testing.T) {
	pool := &v1alpha1.Database{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pool"}}
	f := newFixture(t, nil, example(onPool), poolSecret(), pool)
	f.Reconcile()
	controllertest.Equal(t, "reason", "DatabaseNotReady", f.ready().Reason)
	controllertest.Equal(t, "message", "Waiting for Database pool, whose Secret connectionSecretRef names, to become "+
		"Ready. Then the operator creates the role and the database.", f.ready().Message)
	controllertest.Equal(t, "calls of the server", 0, len(f.server.calls))

	setPoolReady := func(status metav1.ConditionStatus) {
		kindtest.Change(f.Cluster, "default", "pool", func(pool *v1alpha1.Database) {
			pool.Status.Conditions = []metav1.Condition{{Type: conditions.Ready, Status: status}}
		})
	}
	setPoolReady(metav1.ConditionTrue)
	f.Reconcile()
	f.Reconcile()
	controllertest.Equal(t, "externalID", "1/2", f.Object().Status.ExternalID)

	calls := len(f.server.calls)
	setPoolReady(metav1.ConditionFalse)
	f.Reconcile()
	controllertest.Equal(t, "whether the server is used after a restart of the Database", true,
		len(f.server.calls) > calls)
}

func TestDeniedOnDatabaseNamesItsOwnerAttributes(t *testing.T) {
	const attributes = "the server's response. Set spec.ownerAttributes of Database pool, whose Secret " +
		"connectionSecretRef names, to [CreateDB, CreateRole]."
	for name, c := range map[string]struct {
		has   []v1alpha1.OwnerAttribute
		class postgresql.Class
		want  string
	}{
		"no attribute":  {nil, postgresql.Denied, attributes},
		"one attribute": {[]v1alpha1.OwnerAttribute{v1alpha1.OwnerCreateRole}, postgresql.Denied, attributes},
		"both attributes": {
			[]v1alpha1.OwnerAttribute{v1alpha1.OwnerCreateRole, v1alpha1.OwnerCreateDB}, postgresql.Denied,
			"Set CREATEROLE and CREATEDB on the role in Secret pool-credentials",
		},
		"another error": {nil, postgresql.Rejected, "Change the spec"},
	} {
		t.Run(name, func(t *testing.T) {
			pool := &v1alpha1.Database{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pool"}}
			pool.Spec.OwnerAttributes = c.has
			f := newFixture(t, &fakeServer{exists: conflictOf(c.class)}, example(known, onPool), poolSecret(), pool,
				createdSecret(t))
			controllertest.ErrorContains(t, c.want, f.Reconcile().Err)
		})
	}
}

func TestExternalDatabaseDoesNotWaitForDatabaseThatMayNotBecomeReady(t *testing.T) {
	with := func(condition string) func(*v1alpha1.Database) {
		return func(pool *v1alpha1.Database) {
			pool.Status.Conditions = []metav1.Condition{{Type: condition, Status: metav1.ConditionTrue}}
		}
	}
	for name, change := range map[string]func(*v1alpha1.Database){
		"a Degraded Database, such as one whose volume cannot be expanded": with(conditions.Degraded),
		"a paused Database": with(conditions.Paused),
		"a Database that is being deleted": func(pool *v1alpha1.Database) {
			pool.DeletionTimestamp, pool.Finalizers = &metav1.Time{Time: time.Now()}, []string{"example.com/held"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			pool := &v1alpha1.Database{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pool"}}
			change(pool)
			f := newFixture(t, nil, example(onPool), poolSecret(), pool)
			f.Reconcile()
			f.Reconcile()
			controllertest.Equal(t, "externalID", "1/2", f.Object().Status.ExternalID)
		})
	}
}
