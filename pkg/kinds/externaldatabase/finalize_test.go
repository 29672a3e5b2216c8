package externaldatabase

import (
	"errors"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

func TestFinalizeExternalDatabase(t *testing.T) {
	created := createdSecret(t)
	both := []runtime.Object{connectionSecret(), created}
	for name, c := range map[string]struct {
		db      *v1alpha1.ExternalDatabase
		secrets []runtime.Object
		server  *fakeServer
		calls   []string
		reason  string // why the deletion waits
	}{
		"deletes the database": {
			db: example(known, deleted), secrets: both, calls: []string{"delete", "close"},
		},
		"deletes a database without a recorded ID": {db: example(deleted), secrets: both, calls: []string{"delete", "close"}},
		"deletes the database if the owner's Secret is missing": {
			db: example(known, deleted), secrets: []runtime.Object{connectionSecret()}, calls: []string{"delete", "close"}},
		"retains the database": {db: example(known, deleted, retained), secrets: both},
		"retains the database if the connection Secret is missing": {
			db: example(known, deleted, retained), secrets: []runtime.Object{created},
		},
		"retains the database while the Secret is being orphaned": {db: example(known, deleted, orphaning), secrets: both},
		"retains the database after the Secret was orphaned": {
			db: example(known, deleted), secrets: []runtime.Object{connectionSecret(), orphanedSecret(created)}},
		"does not wait if nothing was created": {db: example(deleted)},
		"waits for a missing connection Secret": {
			db: example(known, deleted), secrets: []runtime.Object{created}, reason: "DependencyMissing"},
		"waits for a missing connection Secret if the owner's Secret is missing too": {
			db: example(known, deleted), reason: "DependencyMissing"},
		"waits while the connection Secret is invalid": {
			db: example(known, deleted), secrets: []runtime.Object{
				connectionSecret(withoutData), created,
			}, reason: "InvalidConnectionSecret"},
		"waits while the server does not delete the database": {
			db: example(known, deleted), secrets: both, server: &fakeServer{del: errors.New("the server is busy")},
			calls: []string{"delete", "close"}, reason: "ServerError"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, c.server, c.db, c.secrets...)
			r := f.Reconcile()
			controllertest.Equal(t, "calls", c.calls, f.server.calls)
			if c.reason == "" {
				controllertest.ErrorContains(t, "", r.Err)
				controllertest.Equal(t, "writes", []string{patchFinalizers}, r.Writes)
				controllertest.Equal(t, "the object has the finalizer", false, f.hasFinalizer())
				return
			}
			controllertest.Equal(t, "writes", []string{updateStatus}, r.Writes)
			controllertest.Equal(t, "reason", c.reason, f.ready().Reason)
			status := f.Object().Status
			controllertest.Equal(t, "Degraded", true, meta.IsStatusConditionTrue(status.Conditions, "Degraded"))
			controllertest.Equal(t, "phase", v1alpha1.ExternalDatabaseFailed, status.Phase)
			if message := f.ready().Message; r.Err == nil || !strings.Contains(message, "Retain") {
				t.Errorf("the error is %v, and the message does not say how to keep the database: %s", r.Err, message)
			}
			progressing := meta.FindStatusCondition(f.Object().Status.Conditions, "Progressing")
			controllertest.Equal(t, "message of Progressing", f.ready().Message, progressing.Message)
			controllertest.Equal(t, "the object has the finalizer", true, f.hasFinalizer())
		})
	}
}

// hasFinalizer reports whether the ExternalDatabase exists and has the finalizer.
func (f *fixture) hasFinalizer() bool {
	f.T.Helper()
	db := f.Object()
	return db != nil && slices.Contains(db.Finalizers, finalizerName)
}

// TestFinalizeRetainsDatabaseIfLivePolicyIsRetain has a cache that has not observed the policy yet. The API server
// rejects the removal of the finalizer from an outdated object, so a second reconcile is necessary.
func TestFinalizeRetainsDatabaseIfLivePolicyIsRetain(t *testing.T) {
	f := newFixture(t, nil, example(known, deleted), connectionSecret(), createdSecret(t))
	f.Observe()
	f.Change(retained)
	r := f.ReconcileAsCached()
	if !apierrors.IsConflict(r.Err) {
		t.Errorf("the error is %v", r.Err)
	}
	controllertest.Equal(t, "writes", []string{patchFinalizers}, r.Writes)
	controllertest.Equal(t, "the object has the finalizer", true, f.hasFinalizer())

	r = f.Reconcile()
	controllertest.ErrorContains(t, "", r.Err)
	controllertest.Equal(t, "writes of the second reconcile", []string{patchFinalizers}, r.Writes)
	controllertest.Equal(t, "object", nil, f.Object())
	controllertest.Equal(t, "calls", nil, f.server.calls)
}

// TestFinalizeDeletesNothingAfterFailedRead has errors of reads that decide whether to delete the database. If a read
// returns 404, the cache still has the object.
func TestFinalizeDeletesNothingAfterFailedRead(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{}, "shop", errors.New("no"))
	missing := apierrors.NewNotFound(schema.GroupResource{}, "shop")
	for name, c := range map[string]struct {
		resource string
		fails    error
		onPool   bool // the server belongs to Database pool
		want     error
		writes   []string
	}{
		"the ExternalDatabase is missing": {
			resource: "externaldatabases", fails: missing, want: controller.ErrDeletionNotObserved,
		},
		"the Secret is missing": {resource: "secrets", fails: missing, want: controller.ErrDeletionNotObserved},
		"the ExternalDatabase is forbidden": {
			resource: "externaldatabases", fails: forbidden, want: forbidden, writes: []string{updateStatus},
		},
		"the Secret is forbidden": {resource: "secrets", fails: forbidden, want: forbidden, writes: []string{updateStatus}},
		"the Database is forbidden": {
			resource: "databases", fails: forbidden, onPool: true, want: forbidden, writes: []string{updateStatus},
		},
		"the claim is forbidden": {
			resource: "persistentvolumeclaims", fails: forbidden, onPool: true, want: forbidden, writes: []string{updateStatus},
		},
	} {
		t.Run(name, func(t *testing.T) {
			db := example(known, deleted)
			if c.onPool {
				provenOnPool(db)
			}
			f := newFixture(t, nil, db, connectionSecret(), poolSecret(), createdSecret(t))
			f.Journal.FailNext("get", c.resource, c.fails)
			r := f.Reconcile()
			if !errors.Is(r.Err, c.want) {
				t.Errorf("the error is %v", r.Err)
			}
			controllertest.Equal(t, "writes", c.writes, r.Writes)
			controllertest.Equal(t, "calls", nil, f.server.calls)
			controllertest.Equal(t, "the object has the finalizer", true, f.hasFinalizer())
		})
	}
}
