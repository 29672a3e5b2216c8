package externaldatabase

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/credentials"
	"windlass.dev/windlass/pkg/kinds/internal/kindtest"
	"windlass.dev/windlass/pkg/postgresql"
)

// TestRotationSurvivesLostRequests makes each request of a rotation fail. The Secret must always have a login and a
// password that the server accepted, and the rotation must happen once.
func TestRotationSurvivesLostRequests(t *testing.T) {
	lost := apierrors.NewInternalError(errors.New("the response was lost"))
	for name, resource := range map[string][2]string{
		"the read of the ExternalDatabase": {"get", "externaldatabases"},
		"the read of the Secret":           {"get", "secrets"},
		"the write of the Secret":          {"patch", "secrets"},
		"the write of the status":          {"update", "externaldatabases"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, current(), example(known, requested("1")), connectionSecret(), withoutRequest(createdSecret(t)))
			f.Observe()
			f.Journal.FailNext(resource[0], resource[1], lost)
			f.Reconcile()
			f.Restart() // another process continues
			for range 3 {
				f.Reconcile()
				f.Clock.Step(time.Minute)
			}
			secret := f.secret()
			controllertest.Equal(t, "login", "clerk-login1", string(secret.Data["username"]))
			controllertest.Equal(t, "request that was carried out", "1", secret.Annotations[credentials.RotateAnnotation])
			controllertest.Equal(t, "login in the status", "clerk-login1", f.Object().Status.Credentials.Username)
			controllertest.Equal(t, "password that the server got", string(secret.Data["password"]),
				f.server.passwords["clerk-login1"])
		})
	}
}

// withoutRequest removes the record of a request from a Secret.
func withoutRequest(s *corev1.Secret) *corev1.Secret {
	delete(s.Annotations, credentials.RotateAnnotation)
	return s
}

func TestRotationChangesNothingWithOutdatedCache(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{}, "shop", errors.New("no"))
	for name, c := range map[string]struct {
		server  *fakeServer
		change  func(*fixture)
		unknown bool // no database was created
		denied  bool // the error is the error of a read
	}{
		"another process has rotated": {server: current(), change: func(f *fixture) {
			f.Store(aged(f.secret(), f.Clock.Now(), time.Hour, time.Minute, "clerk-login1"))
		}},
		"another process has rotated, and the previous login is due": {server: previousWorks(), change: func(f *fixture) {
			f.Store(aged(f.secret(), f.Clock.Now(), time.Hour, time.Minute, "clerk-login1"))
		}},
		"another process has rotated, and the login was retired": {server: &fakeServer{
			found: postgresql.Found{ID: "1/2"},
		}, change: func(f *fixture) {
			f.Store(aged(f.secret(), f.Clock.Now(), time.Hour, time.Minute, "clerk-login1"))
		}},
		"the database does not exist, and the Secret was deleted": {
			server: &fakeServer{}, unknown: true, change: func(f *fixture) { f.Remove(f.secret()) },
		},
		"the request was withdrawn": {
			server: current(), change: func(f *fixture) { f.Change(requested("")) },
		},
		"the ExternalDatabase cannot be read": {server: current(), denied: true, change: func(f *fixture) {
			f.Journal.FailNext("get", "externaldatabases", forbidden)
		}},
		"the Secret cannot be read": {server: current(), denied: true, change: func(f *fixture) {
			f.server.onExists = func() { f.Journal.FailNext("get", "secrets", forbidden) }
		}},
		"the Secret was deleted":          {server: current(), change: func(f *fixture) { f.Remove(f.secret()) }},
		"the ExternalDatabase is deleted": {server: current(), change: func(f *fixture) { f.Change(deleted) }},
	} {
		t.Run(name, func(t *testing.T) {
			status := known
			if c.unknown {
				status = bound
			}
			f := newFixture(t, c.server, example(status, requested("1")), connectionSecret(), createdSecret(t))
			f.Observe()
			c.change(f)
			r := f.ReconcileAsCached()
			if apierrors.IsForbidden(r.Err) != c.denied || !c.denied && !errors.Is(r.Err, controller.Postpone(time.Second)) &&
				!errors.Is(r.Err, controller.ErrDeletionNotObserved) {
				t.Errorf("the error is %v", r.Err)
			}
			if !c.denied { // the reconcile writes the error of a read to the status
				controllertest.Equal(t, "writes", nil, r.Writes)
			}
			controllertest.Equal(t, "calls", []string{"exists", "close"}, f.server.calls)
		})
	}
}

func TestSecretThatChangesDuringRotationIsKept(t *testing.T) {
	f := newFixture(t, current(), example(known, requested("1")), connectionSecret(), createdSecret(t))
	f.server.onRotate = func() {
		kindtest.Change(f.Cluster, "default", "shop-credentials", func(s *corev1.Secret) {
			s.Data["password"] = []byte("theirs")
		})
		f.Observe()
	}
	r := f.Reconcile()
	if !errors.Is(r.Err, controller.Postpone(time.Second)) {
		t.Errorf("the error is %v", r.Err)
	}
	controllertest.Equal(t, "password", "theirs", string(f.secret().Data["password"]))
	controllertest.Equal(t, "login", "clerk", string(f.secret().Data["username"]))
	f.server.onRotate = nil
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	controllertest.Equal(t, "login after the next reconcile", "clerk-login1", string(f.secret().Data["username"]))
}

func TestUsersOwnRotation(t *testing.T) {
	rotated := func(t *testing.T, f *fixture) *corev1.Secret {
		s := aged(createdSecret(t), f.Clock.Now(), 48*time.Hour, time.Hour, "clerk-login1")
		s.Annotations[credentials.RotateAnnotation] = "1"
		return s
	}
	inUse := func(db *v1alpha1.ExternalDatabase) {
		db.Status.Credentials = &v1alpha1.CredentialsStatus{
			Username: "clerk-login1", LastRotationTime: &metav1.Time{Time: time.Now().Add(-time.Hour)},
		}
	}
	for name, c := range map[string]struct {
		change   func(*testing.T, *fixture)
		login    string
		password string // "" for a new one
	}{
		"an edited password is used for the current login": {
			change: func(t *testing.T, f *fixture) {
				s := rotated(t, f)
				s.Data["password"] = []byte("theirs")
				f.Store(s)
			}, login: "clerk-login1", password: "theirs",
		},
		"a deleted Secret gets a new password for the current login": {
			change: func(*testing.T, *fixture) {}, login: "clerk-login1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, current(), example(known, inUse, requested("1")), connectionSecret())
			c.change(t, f)
			for range 2 {
				if r := f.Reconcile(); r.Err != nil {
					t.Fatal(r.Err)
				}
			}
			secret := f.secret()
			if c.password == "" {
				c.password = string(secret.Data["password"])
			}
			controllertest.Equal(t, "login", c.login, string(secret.Data["username"]))
			controllertest.Equal(t, "password", c.password, string(secret.Data["password"]))
			controllertest.Equal(t, "uri",
				"postgresql://"+c.login+":"+c.password+"@db.example.com:5432/orders?sslmode=verify-full",
				string(secret.Data["uri"]))
			controllertest.Equal(t, "login that the server got", []string{
				c.login, c.password,
			}, []string{f.server.want.Login, f.server.want.Password})
		})
	}
}

func TestBusyServerPostponesRotation(t *testing.T) {
	f := newFixture(t, &fakeServer{found: current().found, rotated: postgresql.NewError(postgresql.Busy, "busy")},
		example(known, requested("1")), connectionSecret(), withoutRequest(createdSecret(t)))
	r := f.Reconcile()
	if !errors.Is(r.Err, controller.Postpone(time.Second)) {
		t.Errorf("the error is %v", r.Err)
	}
	controllertest.Equal(t, "writes", nil, r.Writes)
}
