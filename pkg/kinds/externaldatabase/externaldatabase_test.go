package externaldatabase

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/postgresql"
)

const (
	addFinalizer = "patch externaldatabases default/shop"
	createSecret = "create secrets default/shop-credentials"
	patchSecret  = "patch secrets default/shop-credentials"
	updateStatus = "update externaldatabases/status default/shop"
)

// ours returns the owner's Secret as an earlier reconcile has created it.
func ours(t *testing.T, db *v1alpha1.ExternalDatabase) *corev1.Secret {
	t.Helper()
	w := newWorld(t, &fakeServer{}, db, connectionSecret())
	if _, err := w.pass(); controller.ReasonOf(err) != "Creating" {
		t.Fatal(err)
	}
	s := w.secret()
	s.UID, s.ResourceVersion = "secret-uid", "3"
	return s
}

func TestAPass(t *testing.T) {
	current, broken := postgresql.Found{ID: "1/2", Current: true}, errors.New("the connection was lost")
	for name, c := range map[string]struct {
		db         *v1alpha1.ExternalDatabase
		connection *corev1.Secret
		first      bool // the owner's Secret does not exist yet
		server     fakeServer
		asked      []string
		writes     []string
		phase      v1alpha1.ExternalDatabasePhase
		reason     string
		id         string
		err        bool
	}{
		"makes a password, and says so before it asks the server": {
			db: example(func(db *v1alpha1.ExternalDatabase) { db.Finalizers = nil }), connection: connectionSecret(), first: true,
			writes: []string{addFinalizer, createSecret, updateStatus}, phase: "Pending", reason: "Creating", err: true,
		},
		"then makes the database": {
			db: example(bound), connection: connectionSecret(),
			asked: []string{"exists", "create", "close"}, writes: []string{updateStatus}, phase: "Ready", reason: "Available", id: "1/2",
		},
		"leaves the Secret as it is while another server answers": {
			db: example(known), connection: connectionSecret(func(s *corev1.Secret) { s.Data["host"] = []byte("else.example.com") }), server: fakeServer{exists: broken},
			asked: []string{"exists", "close"}, writes: []string{updateStatus}, phase: "Pending", reason: "ServerError", id: "1/2", err: true,
		},
		"and changes it when the right one does": {
			db: example(known), connection: connectionSecret(func(s *corev1.Secret) { s.Data["host"] = []byte("else.example.com") }), server: fakeServer{found: current},
			asked: []string{"exists", "close"}, writes: []string{patchSecret, updateStatus}, phase: "Ready", reason: "Available", id: "1/2",
		},
		"at rest looks, and that is all": {
			db: example(known), connection: connectionSecret(), server: fakeServer{found: current},
			asked: []string{"exists", "close"}, writes: []string{updateStatus}, phase: "Ready", reason: "Available", id: "1/2",
		},
		"knows a connection Secret that is made here, as a Database's is": {
			db: example(known), server: fakeServer{found: current}, connection: connectionSecret(func(s *corev1.Secret) {
				s.Labels = map[string]string{controller.ManagedByLabel: controller.ManagedByWindlass}
			}),
			asked: []string{"exists", "close"}, writes: []string{updateStatus}, phase: "Ready", reason: "Available", id: "1/2",
		},
		"puts right what differs": {
			db: example(known), connection: connectionSecret(), server: fakeServer{found: postgresql.Found{ID: "1/2"}},
			asked: []string{"exists", "update", "close"}, writes: []string{updateStatus}, phase: "Ready", reason: "Available", id: "1/2",
		},
		"goes on with what was begun": {
			db: example(bound), connection: connectionSecret(), server: fakeServer{found: postgresql.Found{ID: "1/2"}},
			asked: []string{"exists", "update", "close"}, writes: []string{updateStatus}, phase: "Ready", reason: "Available", id: "1/2",
		},
		"says that the database is gone, and makes no other": {
			db: example(known), connection: connectionSecret(), asked: []string{"exists", "close"}, writes: []string{updateStatus},
			phase: "Failed", reason: "DatabaseGone", id: "1/2", err: true,
		},
		"notes that the database is gone before it makes another that is asked for": {
			db: example(known, recreated("1/2")), connection: connectionSecret(), asked: []string{"exists", "close"}, writes: []string{updateStatus},
			phase: "Pending", reason: "Creating", err: true,
		},
		"makes no other in place of one that was asked for once": {
			db: example(known, recreated("1/1")), connection: connectionSecret(), asked: []string{"exists", "close"}, writes: []string{updateStatus},
			phase: "Failed", reason: "DatabaseGone", id: "1/2", err: true,
		},
		"notes that the database moved with its server": {
			db: example(known), connection: connectionSecret(), server: fakeServer{found: postgresql.Found{ID: "5/6", Current: true}},
			asked: []string{"exists", "close"}, writes: []string{updateStatus}, phase: "Ready", reason: "Available", id: "5/6",
		},
		"waits for the connection Secret, and makes nothing": {
			db: example(), first: true, writes: []string{updateStatus}, phase: "Pending", reason: "DependencyMissing", err: true,
		},
		"refuses a connection Secret that says nothing, and makes nothing": {
			db: example(), first: true, connection: connectionSecret(func(s *corev1.Secret) { s.Data = nil }), writes: []string{updateStatus}, phase: "Failed", reason: "InvalidConnectionSecret", err: true,
		},
		"leaves a Secret of somebody else's alone": {
			db: example(), first: true, connection: connectionSecret(func(s *corev1.Secret) { s.Name = "server" }),
			writes: []string{createSecret, updateStatus}, phase: "Failed", reason: "NameConflict", err: true,
		},
		"says what could not be looked at": {
			db: example(known), connection: connectionSecret(), server: fakeServer{exists: broken}, asked: []string{"exists", "close"}, writes: []string{updateStatus},
			phase: "Pending", reason: "ServerError", id: "1/2", err: true,
		},
		"says what could not be made": {
			db: example(bound), connection: connectionSecret(), server: fakeServer{create: broken}, asked: []string{"exists", "create", "close"}, writes: []string{updateStatus},
			phase: "Pending", reason: "ServerError", id: "1/2", err: true, // the database was created, but something else failed
		},
		"says what could not be put right": {
			db: example(known), connection: connectionSecret(), server: fakeServer{found: postgresql.Found{ID: "1/2"}, update: broken},
			asked: []string{"exists", "update", "close"}, writes: []string{updateStatus}, phase: "Pending", reason: "ServerError", id: "1/2", err: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var secrets []*corev1.Secret
			if c.connection != nil {
				secrets = append(secrets, c.connection)
			}
			switch {
			case !c.first:
				secrets = append(secrets, ours(t, example()))
			case c.reason == "NameConflict":
				secrets = append(secrets, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "shop-credentials"}})
			}
			w := newWorld(t, &c.server, c.db, secrets...)
			_, err := w.pass()
			controllertest.Equal(t, "error", c.err, err != nil)
			controllertest.Equal(t, "asked", c.asked, c.server.asked)
			controllertest.Equal(t, "writes", c.writes, w.journal.Writes())
			db := w.db()
			controllertest.Equal(t, "status", []string{string(c.phase), c.reason, c.id}, []string{string(db.Status.Phase), ready(db).Reason, db.Status.ExternalID})
			if len(c.asked) > 0 {
				controllertest.Equal(t, "password", string(w.secret().Data["password"]), c.server.want.Password)
				controllertest.Equal(t, "wanted", []string{"orders", "clerk", "citext", "shop-uid"},
					[]string{c.server.want.Database, c.server.want.Owner, c.server.want.Extensions[0], c.server.want.Mark.UID})
			}
		})
	}
}

func TestAConnectionSecretIsReadOncePerVersion(t *testing.T) {
	w := newWorld(t, &fakeServer{found: postgresql.Found{ID: "1/2", Current: true}}, example(known), connectionSecret(), ours(t, example()))
	reads := func() int {
		return len(slices.DeleteFunc(w.reads(), func(name string) bool { return name != "server" }))
	}
	for range 3 {
		if _, err := w.pass(); err != nil {
			t.Fatal(err)
		}
	}
	controllertest.Equal(t, "reads", 1, reads())
	controllertest.Equal(t, "writes", []string{updateStatus}, w.journal.Writes())
	other := connectionSecret(func(s *corev1.Secret) { s.ResourceVersion, s.Data["host"] = "8", []byte("else.example.com") })
	if err := w.kube.Tracker().Update(corev1.SchemeGroupVersion.WithResource("secrets"), other, "default"); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := w.pass(); err != nil {
			t.Fatal(err)
		}
	}
	controllertest.Equal(t, "reads", 2, reads())
	controllertest.Equal(t, "host", []string{"else.example.com", "else.example.com"}, []string{w.server.admin.Host, string(w.secret().Data["host"])})
	controllertest.Equal(t, "writes", []string{updateStatus, patchSecret}, w.journal.Writes())
}

// TestASecretThatWasLetGoIsTakenBack has a reconcile that fails right after that. Otherwise a deletion of
// the ExternalDatabase would treat the Secret as orphaned.
func TestASecretThatWasLetGoIsTakenBack(t *testing.T) {
	credentials := ours(t, example())
	credentials.OwnerReferences = nil
	w := newWorld(t, &fakeServer{exists: errors.New("broken")}, example(known), connectionSecret(), credentials)
	if _, err := w.pass(); err == nil {
		t.Error("the pass ended well")
	}
	controllertest.Equal(t, "writes", []string{patchSecret, updateStatus}, w.journal.Writes())
	controllertest.Equal(t, "is controlled", true, metav1.IsControlledBy(w.secret(), w.db()))
	controllertest.Equal(t, "data", credentials.Data, w.secret().Data)
}

func TestWhatIsSaidOfAServer(t *testing.T) {
	for class, c := range map[postgresql.Class]struct {
		reason   string
		phase    v1alpha1.ExternalDatabasePhase
		stalled  bool
		says     string
		postpone bool
	}{
		postgresql.Other:     {reason: "ServerError", phase: "Pending"},
		postgresql.Busy:      {postpone: true},
		postgresql.Silent:    {reason: "ServerUnreachable", phase: "Pending", says: "tried again every 30s."},
		postgresql.Away:      {reason: "ServerUnreachable", phase: "Pending", says: "tried again every 30s."},
		postgresql.Forbidden: {reason: "HostNotAllowed", phase: "Failed", stalled: true, says: "administrator"},
		postgresql.Untrusted: {reason: "ServerNotTrusted", phase: "Failed", stalled: true, says: "set ca in Secret server"},
		postgresql.Refused:   {reason: "LoginRefused", phase: "Failed", stalled: true, says: "username and password in Secret server"},
		postgresql.Denied:    {reason: "PermissionDenied", phase: "Failed", stalled: true, says: "CREATEROLE and CREATEDB"},
		postgresql.Taken:     {reason: "NameConflict", phase: "Failed", stalled: true, says: `COMMENT ON ROLE "clerk"`},
		postgresql.Replaced:  {reason: "ServerReplaced", phase: "Failed", stalled: true, says: "Retain"},
		postgresql.Rejected:  {reason: "Rejected", phase: "Failed", stalled: true, says: "change the spec"},
	} {
		t.Run(class.String(), func(t *testing.T) {
			w := newWorld(t, &fakeServer{exists: postgresql.NewError(class, "the server's words")}, example(known), connectionSecret(), ours(t, example()))
			_, err := w.pass()
			if err == nil {
				t.Fatal("no error")
			}
			db := w.db()
			if c.postpone {
				controllertest.Equal(t, "writes", nil, w.journal.Writes())
				return
			}
			condition := ready(db)
			controllertest.Equal(t, "status", []string{string(c.phase), c.reason}, []string{string(db.Status.Phase), condition.Reason})
			controllertest.Equal(t, "stalled", c.stalled, slices.ContainsFunc(db.Status.Conditions, func(c metav1.Condition) bool { return c.Type == "Stalled" }))
			for _, words := range []string{"the server's words", c.says} {
				if !strings.Contains(condition.Message, words) {
					t.Errorf("the message does not say %q: %s", words, condition.Message)
				}
			}
		})
	}
}

func TestAPasswordThatClientsWouldChangeIsRefused(t *testing.T) {
	for _, password := range []string{"line\n", "nul\x00", "ü", "\x7f", "\xff"} {
		s := ours(t, example())
		s.Data["password"] = []byte(password)
		w := newWorld(t, &fakeServer{}, example(known), connectionSecret(), s)
		_, err := w.pass()
		if err == nil || w.server.asked != nil || ready(w.db()).Reason != "InvalidPassword" {
			t.Errorf("%q: the server was asked for %v, and it is said %v", password, w.server.asked, err)
		}
	}
}

func TestAPasswordThatChangesDuringAPassIsNotSaidToWork(t *testing.T) {
	for name, change := range map[string]func(w *world){
		"edited": func(w *world) {
			s := w.secret()
			s.Data["password"] = []byte("another")
			if _, err := w.kube.CoreV1().Secrets("default").Update(t.Context(), s, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			w.fill()
		},
		"deleted": func(w *world) {
			if err := w.kube.CoreV1().Secrets("default").Delete(t.Context(), "shop-credentials", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			if err := w.cluster.Secrets().Informer.GetStore().Replace(nil, "9"); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, &fakeServer{found: postgresql.Found{ID: "1/2", Current: true}}, example(known), connectionSecret())
			if _, err := w.pass(); err != nil || ready(w.db()).Status != metav1.ConditionTrue {
				t.Fatalf("it is %v, and the pass ended with %v", ready(w.db()), err)
			}
			w.server.meanwhile = func() { change(w) }
			_, _ = w.pass()
			controllertest.Equal(t, "Ready", metav1.ConditionFalse, ready(w.db()).Status)
			controllertest.Equal(t, "reason", "PasswordChanged", ready(w.db()).Reason)
			w.server.meanwhile = nil
			if _, err := w.pass(); err != nil || ready(w.db()).Status != metav1.ConditionTrue {
				t.Errorf("it is %v, and the pass ended with %v", ready(w.db()), err)
			}
			controllertest.Equal(t, "password that the server got", string(w.secret().Data["password"]), w.server.want.Password)
		})
	}
}

func TestTheSecretSaysWhatTheConnectionDoes(t *testing.T) {
	admin := postgresql.Settings{Host: "db.example.com", Port: 6432, Username: "admin", Password: "canary", Mode: postgresql.VerifyFull, CA: []byte("certificate")}
	db := example(func(db *v1alpha1.ExternalDatabase) { db.Name, db.Spec.Owner = strings.Repeat("x", 64), "" })
	s := desiredSecret(db, admin, "secret")
	controllertest.Equal(t, "data", map[string]string{
		"username": "orders", "password": "secret", "host": "db.example.com", "port": "6432", "dbname": "orders", "sslmode": "verify-full", "ca": "certificate",
		"uri": "postgresql://orders:secret@db.example.com:6432/orders?sslmode=verify-full", "pgpass": "db.example.com:6432:orders:orders:secret\n",
	}, text(s.Data))
	for key, value := range s.Labels {
		if len(value) > 63 {
			t.Errorf("label %s is too long for the API server: %s", key, value)
		}
	}
}

func text(data map[string][]byte) map[string]string {
	texts := map[string]string{}
	for key, value := range data {
		texts[key] = string(value)
	}
	return texts
}

func TestAPassIsPostponedForAMoment(t *testing.T) {
	err := explain(t.Context(), example(), postgresql.NewError(postgresql.Busy, "busy"))
	controllertest.Equal(t, "error", controller.Postpone(time.Second).Error(), err.Error())
}

// TestNothingIsMadeForAnExternalDatabaseThatIsGone has a cache from before a deletion, as a process that
// has just started can have. Nobody would ever delete what it created on the server.
func TestNothingIsMadeForAnExternalDatabaseThatIsGone(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.ExternalDatabase){
		"or another":       func(db *v1alpha1.ExternalDatabase) { db.UID = "other" },
		"or being deleted": deleted,
		"altogether":       nil,
	} {
		t.Run(name, func(t *testing.T) {
			db, server := example(bound), fakeServer{}
			w := newWorld(t, &server, db, connectionSecret(), ours(t, example()))
			resource, tracker := v1alpha1.SchemeGroupVersion.WithResource("externaldatabases"), w.windlass.Tracker()
			err := tracker.Delete(resource, "default", "shop")
			if change != nil {
				live := db.DeepCopy()
				change(live)
				err = tracker.Add(live)
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.pipeline.Sync(t.Context(), controller.Key{Namespace: "default", Name: "shop"}); !errors.Is(err, controller.AwaitDeletion()) {
				t.Errorf("the error is %v", err)
			}
			controllertest.Equal(t, "asked", []string{"exists", "close"}, server.asked)
		})
	}
}
