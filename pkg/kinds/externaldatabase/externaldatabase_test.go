package externaldatabase

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/credentials"
	"windlass.dev/windlass/pkg/kinds/internal/kindtest"
	"windlass.dev/windlass/pkg/postgresql"
)

func TestMain(m *testing.M) { controllertest.Main(m, Messages) }

func TestReconcileExternalDatabase(t *testing.T) {
	created, broken := createdSecret(t), errors.New("the connection was lost")
	both := []runtime.Object{connectionSecret(), created}
	bothOnOtherHost := []runtime.Object{connectionSecret(onOtherHost), created}
	checked, ensured := []string{"exists", "close"}, []string{"exists", "ensure", "close"}
	for name, c := range map[string]struct {
		db      *v1alpha1.ExternalDatabase
		secrets []runtime.Object
		server  *fakeServer
		calls   []string
		writes  []string
		phase   v1alpha1.ExternalDatabasePhase
		reason  string // the reason of Ready
		id      string
		err     string // a part of the error
		retry   time.Duration
	}{
		"creates the Secret and writes the status before it calls the server": {
			db: example(func(db *v1alpha1.ExternalDatabase) { db.Finalizers = nil }), secrets: []runtime.Object{
				connectionSecret(),
			},
			writes: []string{patchFinalizers, createSecret, updateStatus}, phase: "Pending", reason: "Creating",
			err: `about to create role "clerk"`,
		},
		"creates the database after the status names the Secret": {
			db: example(bound), secrets: both, calls: ensured, writes: []string{updateStatus},
			phase: "Ready", reason: "Available", id: "1/2",
		},
		"keeps the host in the Secret while the server on another host fails": {
			db: example(known), secrets: bothOnOtherHost, server: &fakeServer{
				exists: broken,
			}, calls: checked, writes: []string{updateStatus},
			phase: "Pending", reason: "ServerError", id: "1/2", err: "the connection was lost",
		},
		"changes the host in the Secret if the server on another host has the database": {
			db: example(known), secrets: bothOnOtherHost, server: current(), calls: checked, writes: []string{
				patchSecret, updateStatus,
			},
			phase: "Ready", reason: "Available", id: "1/2",
		},
		"checks a current database and changes nothing": {
			db: example(known), secrets: both, server: current(), calls: checked, writes: []string{updateStatus},
			phase: "Ready", reason: "Available", id: "1/2",
		},
		"reads a connection Secret that the operator manages": {
			db: example(known), secrets: []runtime.Object{created, connectionSecret(func(s *corev1.Secret) {
				s.Labels = map[string]string{controller.ManagedByLabel: controller.ManagedByWindlass}
			})},
			server: current(), calls: checked, writes: []string{updateStatus}, phase: "Ready", reason: "Available", id: "1/2",
		},
		"updates a database that differs from its desired state": {
			db: example(known), secrets: both, server: &fakeServer{found: postgresql.Found{ID: "1/2"}}, calls: ensured,
			writes: []string{updateStatus},
			phase:  "Ready", reason: "Available", id: "1/2",
		},
		"updates a database whose ID was not recorded": {
			db: example(bound), secrets: both, server: &fakeServer{found: postgresql.Found{ID: "1/2"}}, calls: ensured,
			writes: []string{updateStatus},
			phase:  "Ready", reason: "Available", id: "1/2",
		},
		"reports a missing database and does not create it again": {
			db: example(known), secrets: both, calls: checked, writes: []string{updateStatus},
			phase: "Failed", reason: "DatabaseGone", id: "1/2", err: `Database "orders" (1/2) was not found`,
		},
		"removes the ID of a missing database before it creates a requested one": {
			db: example(known, recreated("1/2")), secrets: both, calls: checked, writes: []string{updateStatus},
			phase: "Pending", reason: "Creating", err: `about to create a new, empty database "orders"`,
		},
		"ignores a recreate annotation with another ID": {
			db: example(known, recreated("1/1")), secrets: both, calls: checked, writes: []string{updateStatus},
			phase: "Failed", reason: "DatabaseGone", id: "1/2", err: `Database "orders" (1/2) was not found`,
		},
		"records the new ID of a database that moved with its server": {
			db: example(known), secrets: both, server: &fakeServer{found: postgresql.Found{ID: "5/6", Current: true}},
			calls: checked, writes: []string{updateStatus},
			phase: "Ready", reason: "Available", id: "5/6",
		},
		"waits for the connection Secret and creates nothing": {
			db: example(), writes: []string{updateStatus}, phase: "Pending", reason: "DependencyMissing",
			err: "Waiting for Secret server", retry: 5 * time.Second,
		},
		"rejects an empty connection Secret": {
			db: example(), secrets: []runtime.Object{connectionSecret(withoutData)}, writes: []string{updateStatus},
			phase: "Failed", reason: "InvalidConnectionSecret", err: "Connection Secret server is invalid",
		},
		"does not change a Secret that it does not own": {
			db: example(), secrets: []runtime.Object{
				connectionSecret(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "shop-credentials"}},
			},
			writes: []string{createSecret, updateStatus}, phase: "Failed", reason: "NameConflict",
			err:   "Secret default/shop-credentials already exists",
			retry: 30 * time.Second, // as for the child of every kind
		},
		"reports a creation that fails and records the ID of the database": {
			db: example(bound), secrets: both, server: &fakeServer{ensure: broken}, calls: ensured,
			writes: []string{updateStatus},
			phase:  "Pending", reason: "ServerError", id: "1/2", err: "the connection was lost",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, c.server, c.db, c.secrets...)
			r := f.Reconcile()
			controllertest.ErrorContains(t, c.err, r.Err)
			controllertest.Equal(t, "calls", c.calls, f.server.calls)
			controllertest.Equal(t, "writes", c.writes, r.Writes)
			status := f.Object().Status
			controllertest.Equal(t, "phase", c.phase, status.Phase)
			controllertest.Equal(t, "reason", c.reason, f.ready().Reason)
			controllertest.Equal(t, "ID", c.id, status.ExternalID)
			if c.phase == "Ready" {
				controllertest.Resyncs(t, 5*time.Minute, r.Result)
			}
			if c.retry > 0 {
				controllertest.Equal(t, "retry", c.retry, controllertest.RetryAfter(t, r.Result, r.Err))
			}
			if len(c.calls) > 0 {
				controllertest.Equal(t, "desired state", postgresql.Want{
					Mark:     postgresql.Mark{Namespace: "default", Name: "shop", UID: "shop-uid"},
					Database: "orders", Owner: "clerk", Alternates: []string{
						"clerk-login1", "clerk-login2",
					}, Login: "clerk", Password: string(f.secret().Data["password"]),
					Extensions: []string{"citext"}, ID: postgresql.ID(c.db.Status.ExternalID),
				}, f.server.want)
			}
		})
	}
}

// TestReconcileAdoptsReleasedSecret checks that a reconcile adopts the Secret even if the server then
// fails. If the Secret stayed without an owner, a deletion of the ExternalDatabase would treat it as
// orphaned.
func TestReconcileAdoptsReleasedSecret(t *testing.T) {
	created := createdSecret(t)
	f := newFixture(t, &fakeServer{exists: errors.New("the connection was lost")}, example(known), connectionSecret(),
		orphanedSecret(created))
	r := f.Reconcile()
	controllertest.ErrorContains(t, "the connection was lost", r.Err)
	controllertest.Equal(t, "writes", []string{patchSecret, updateStatus}, r.Writes)
	adopted := f.secret()
	controllertest.Equal(t, "is controlled", true, metav1.IsControlledBy(adopted, f.Object()))
	created.ResourceVersion = adopted.ResourceVersion
	controllertest.Equal(t, "Secret", created, adopted)
}

func TestServerErrorSetsConditions(t *testing.T) {
	for class, c := range map[postgresql.Class]struct {
		reason   string
		phase    v1alpha1.ExternalDatabasePhase
		stalled  bool
		message  string // a part of the message
		postpone bool
	}{
		postgresql.Other: {reason: "ServerError", phase: "Pending", message: "using the server in Secret server"},
		postgresql.Busy:  {postpone: true},
		postgresql.Silent: {
			reason: "ServerUnreachable", phase: "Pending", message: "The operator retries at least every 30s.",
		},
		postgresql.Away: {
			reason: "ServerUnreachable", phase: "Pending", message: "The operator retries at least every 30s.",
		},
		postgresql.Forbidden: {reason: "HostNotAllowed", phase: "Failed", stalled: true, message: "administrator"},
		postgresql.Untrusted: {
			reason: "ServerNotTrusted", phase: "Failed", stalled: true, message: "In Secret server, set ca.crt",
		},
		postgresql.Unverified: {reason: reasonUntrusted, phase: "Failed", stalled: true, message: "set sslmode to"},
		postgresql.LoginRejected: {
			reason: "LoginRejected", phase: "Failed", stalled: true, message: "username and password in Secret server",
		},
		postgresql.Denied: {reason: "PermissionDenied", phase: "Failed", stalled: true, message: "CREATEROLE and CREATEDB"},
		postgresql.Uninherited: {
			reason: "PermissionDenied", phase: "Failed", stalled: true, message: "Set INHERIT on the role in Secret server",
		},
		postgresql.Unlisted: {
			reason: "PermissionDenied", phase: "Failed", stalled: true, message: "Ask a superuser of the server to " +
				"create the extension",
		},
		postgresql.Taken: {
			reason: "NameConflict", phase: "Failed", stalled: true, message: `server to run: COMMENT ON ROLE "clerk-login1" IS`,
		},
		postgresql.Protected: {
			reason: "RoleProtected", phase: "Failed", stalled: true, message: "with another spec.owner instead",
		},
		postgresql.Kept: {
			reason: "PasswordUnknown", phase: "Failed", stalled: true,
			message: "kubectl -n default annotate externaldatabase shop windlass.dev/rotate-credentials=handed-over --overwrite",
		},
		postgresql.Replaced: {reason: "ServerReplaced", phase: "Failed", stalled: true, message: "Retain"},
		postgresql.Rejected: {reason: "Rejected", phase: "Failed", stalled: true, message: "Change the spec"},
	} {
		t.Run(string(class), func(t *testing.T) {
			f := newFixture(t, &fakeServer{exists: conflictOf(class)}, example(known), connectionSecret(), createdSecret(t))
			r := f.Reconcile()
			if c.postpone {
				if !errors.Is(r.Err, controller.Postpone(time.Second)) {
					t.Errorf("the error is %v", r.Err)
				}
				controllertest.Equal(t, "writes", nil, r.Writes)
				return
			}
			controllertest.ErrorContains(t, "the server's response", r.Err)
			controllertest.ErrorContains(t, c.message, r.Err)
			controllertest.Equal(t, "phase", c.phase, f.Object().Status.Phase)
			note := c.reason + ": " + r.Err.Error()
			want := []string{"Degraded=False AsExpected", "Progressing=True " + note, "Ready=False " + note}
			if c.stalled {
				want = []string{"Degraded=True " + note, "Progressing=False " + note, "Ready=False " + note, "Stalled=True " + note}
			}
			controllertest.Equal(t, "conditions", want, controllertest.Conditions(f.Object()))
			if c.reason == "NameConflict" || class == postgresql.Kept {
				controllertest.Equal(t, "retry", 30*time.Second, controllertest.RetryAfter(t, r.Result, r.Err))
			}
		})
	}
}

func TestReconcileRejectsPasswordThatIsNotPrintableASCII(t *testing.T) {
	for name, password := range map[string]string{
		"a line break":                "line\n",
		"a NUL":                       "nul\x00",
		"a letter that is not ASCII":  "ü",
		"a DEL":                       "\x7f",
		"a byte that is not in UTF-8": "\xff",
	} {
		t.Run(name, func(t *testing.T) {
			s := createdSecret(t)
			s.Data["password"] = []byte(password)
			f := newFixture(t, nil, example(known), connectionSecret(), s)
			controllertest.ErrorContains(t, "the password in Secret shop-credentials contains a character that is "+
				"not printable ASCII", f.Reconcile().Err)
			controllertest.Equal(t, "reason", "InvalidPassword", f.ready().Reason)
			controllertest.Equal(t, "calls", nil, f.server.calls)
		})
	}
}

func TestPasswordChangeDuringReconcileSetsNotReady(t *testing.T) {
	for name, change := range map[string]func(*fixture){
		"a user changes the password": func(f *fixture) {
			kindtest.Change(f.Cluster, "default", "shop-credentials", func(s *corev1.Secret) {
				s.Data["password"] = []byte("another")
			})
		},
		"a user deletes the Secret": func(f *fixture) { f.Remove(f.secret()) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, current(), example(known), connectionSecret())
			controllertest.ErrorContains(t, "", f.Reconcile().Err)
			controllertest.Equal(t, "Ready before the change", metav1.ConditionTrue, f.ready().Status)
			f.server.onExists = func() {
				change(f)
				f.Observe()
			}
			controllertest.ErrorContains(t, "The password in Secret shop-credentials has changed. The operator is "+
				"about to set it on the server.", f.Reconcile().Err)
			controllertest.Equal(t, "Ready", metav1.ConditionFalse, f.ready().Status)
			controllertest.Equal(t, "reason", "PasswordChanged", f.ready().Reason)
			f.server.onExists = nil
			controllertest.ErrorContains(t, "", f.Reconcile().Err)
			controllertest.Equal(t, "Ready after the next reconcile", metav1.ConditionTrue, f.ready().Status)
			controllertest.Equal(t, "password that the server got", string(f.secret().Data["password"]), f.server.want.Password)
		})
	}
}

func TestDesiredSecretContainsConnectionSettings(t *testing.T) {
	admin := postgresql.Settings{
		Host: "db.example.com", Port: 6432, Username: "admin", Password: "canary", Mode: postgresql.VerifyFull,
		CA: []byte("certificate"),
	}
	db := example(func(db *v1alpha1.ExternalDatabase) { db.Name, db.Spec.Owner = strings.Repeat("x", 64), "" })
	s := desiredSecret(db, admin, generation{"orders", "secret"}, credentials.Record{})
	controllertest.Equal(t, "data", map[string]string{
		"username": "orders", "password": "secret", "host": "db.example.com", "port": "6432", "dbname": "orders",
		"sslmode": "verify-full", "ca.crt": "certificate",
		"sslrootcert": "/etc/windlass/database/ca.crt",
		"uri": "postgresql://orders:secret@db.example.com:6432/orders?sslmode=verify-full" +
			"&sslrootcert=%2Fetc%2Fwindlass%2Fdatabase%2Fca.crt",
		"pgpass": "db.example.com:6432:orders:orders:secret\n",
	}, text(s.Data))
	for key, value := range s.Labels {
		if len(value) > 63 {
			t.Errorf("label %s is too long for the API server: %s", key, value)
		}
	}
}

// text returns the data of a Secret as strings.
func text(data map[string][]byte) map[string]string {
	texts := map[string]string{}
	for key, value := range data {
		texts[key] = string(value)
	}
	return texts
}

// TestReconcileCreatesNothingForDeletedExternalDatabase has a cache from before a deletion, like the cache of a process
// that has just started. No reconcile would ever delete a role and a database that this process creates.
func TestReconcileCreatesNothingForDeletedExternalDatabase(t *testing.T) {
	for name, change := range map[string]func(*fixture){
		"the ExternalDatabase is gone": func(f *fixture) { f.Remove(f.Object()) },
		"the ExternalDatabase was replaced": func(f *fixture) {
			replacement := f.Object()
			f.Remove(replacement)
			replacement.UID = "other"
			f.Store(replacement)
		},
		"the ExternalDatabase is being deleted": func(f *fixture) { f.Change(deleted) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil, example(bound), connectionSecret(), createdSecret(t))
			f.Observe()
			change(f)
			r := f.ReconcileAsCached()
			if !errors.Is(r.Err, controller.ErrDeletionNotObserved) {
				t.Errorf("the error is %v", r.Err)
			}
			controllertest.Equal(t, "writes", nil, r.Writes)
			controllertest.Equal(t, "calls", []string{"exists", "close"}, f.server.calls)
		})
	}
}
