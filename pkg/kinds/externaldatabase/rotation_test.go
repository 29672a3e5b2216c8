package externaldatabase

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/credentials"
	"windlass.dev/windlass/pkg/postgresql"
)

// requested returns a change that sets the annotation that requests a rotation.
func requested(value string) func(*v1alpha1.ExternalDatabase) {
	return func(db *v1alpha1.ExternalDatabase) {
		metav1.SetMetaDataAnnotation(&db.ObjectMeta, credentials.RotateAnnotation, value)
	}
}

// everyDay sets rotateEvery to 24h.
func everyDay(db *v1alpha1.ExternalDatabase) {
	db.Spec.Credentials = &v1alpha1.CredentialsSpec{RotateEvery: &metav1.Duration{Duration: 24 * time.Hour}}
}

// aged returns a copy of the Secret s with a login. created and rotated say how long before now the Secret was created,
// and its login was rotated. If rotated is 0, there was no rotation.
func aged(s *corev1.Secret, now time.Time, created, rotated time.Duration, login string) *corev1.Secret {
	s = s.DeepCopy()
	s.CreationTimestamp = metav1.NewTime(now.Add(-created))
	credentials.Keep("clerk", now)(s, &corev1.Secret{
		Data: map[string][]byte{"username": []byte(login), "password": s.Data["password"]},
	})
	if rotated > 0 {
		credentials.SetRecord(s, credentials.Record{Rotated: now.Add(-rotated)})
	}
	return s
}

// previousWorks returns a server on which the previous login works.
func previousWorks() *fakeServer {
	s := current()
	s.found.Previous = "clerk"
	return s
}

// reasons returns the type and reason of each Event.
func reasons(events []string) (all []string) {
	for _, event := range events {
		all = append(all, strings.Join(strings.Fields(event)[:2], " "))
	}
	return all
}

func TestRotationTakesTurns(t *testing.T) {
	f := newFixture(t, current(), example(known), connectionSecret(), createdSecret(t))
	f.Reconcile()
	controllertest.Equal(t, "status before a rotation", nil, f.Object().Status.Credentials)
	first := f.secret()
	for i, login := range []string{"clerk-login1", "clerk-login2", "clerk-login1"} {
		previous, before := string(f.secret().Data["username"]), f.secret()
		f.Change(requested(strings.Repeat("x", i*1000+1)))
		f.server.calls = nil
		r := f.Reconcile()
		now := f.Clock.Now().Truncate(time.Second)
		controllertest.ErrorContains(t, "", r.Err)
		controllertest.Equal(t, "calls", []string{"exists", "rotate to " + login, "close"}, f.server.calls)
		controllertest.Equal(t, "writes", []string{patchSecret, updateStatus}, r.Writes)
		controllertest.Equal(t, "events", []string{"Normal CredentialsRotated"}, reasons(r.Events))
		after := f.secret()
		password := string(after.Data["password"])
		controllertest.Equal(t, "password that the server got", password, f.server.want.Password)
		controllertest.Equal(t, "data",
			text(desiredSecret(f.Object(), adminSettings, generation{login, password}, credentials.Record{}).Data),
			text(after.Data))
		if password == string(before.Data["password"]) || password == string(first.Data["password"]) {
			t.Error("the password is not new")
		}
		status := v1alpha1.CredentialsStatus{
			Username: login, LastRotationTime: &metav1.Time{Time: now}, PreviousUsername: previous,
			WaitingFor: "the end of the grace period at " + now.Add(10*time.Minute).UTC().Format(time.RFC3339),
		}
		f.statusIs(status)

		r = f.Reconcile()
		controllertest.Equal(t, "writes during the grace period", nil, r.Writes)
		f.Change(requested("another request")) // must wait
		f.Clock.Step(10 * time.Minute)
		f.users = []string{"App web"}
		r = f.Reconcile()
		controllertest.Equal(t, "result while an App uses the previous login", controller.Result{
			RequeueAfter: 5 * time.Second,
		}, r.Result)
		status.WaitingFor = "App web"
		f.statusIs(status)

		f.Change(requested(strings.Repeat("x", i*1000+1))) // withdraws the other request
		f.server.calls, f.users = nil, nil
		r = f.Reconcile()
		controllertest.Equal(t, "calls", []string{"exists", "retire beside " + login, "close"}, f.server.calls)
		controllertest.Equal(t, "events", []string{"Normal PreviousLoginRetired"}, reasons(r.Events))
		status.PreviousUsername, status.WaitingFor = "", ""
		f.statusIs(status)

		f.server.calls = nil
		r = f.Reconcile()
		controllertest.Equal(t, "writes afterwards", nil, r.Writes)
		controllertest.Equal(t, "calls afterwards", []string{"exists", "close"}, f.server.calls)
		controllertest.Equal(t, "next check is periodic", true, r.Result.Check)
	}
}

// statusIs fails the test unless the ExternalDatabase is Ready and has these credentials in its status.
func (f *fixture) statusIs(want v1alpha1.CredentialsStatus) {
	f.T.Helper()
	controllertest.Equal(f.T, "Ready", metav1.ConditionTrue, f.ready().Status)
	got := f.Object().Status.Credentials.DeepCopy()
	for _, at := range []*metav1.Time{
		got.LastRotationTime, want.LastRotationTime, got.NextRotationTime, want.NextRotationTime,
	} {
		if at != nil {
			at.Time = at.UTC()
		}
	}
	controllertest.Equal(f.T, "status.credentials", want, *got)
}

func TestStepsOfRotation(t *testing.T) {
	created := createdSecret(t)
	const advice = `role "clerk" has REPLICATION. Ask a superuser of the server to run: ALTER ROLE "clerk" NOREPLICATION`
	protected := postgresql.NewConflict(postgresql.Protected,
		postgresql.Conflict{Role: true, Remedy: `ALTER ROLE "clerk" NOREPLICATION`}, `role "clerk" has REPLICATION`)
	day, rejected := 24*time.Hour, postgresql.NewError(postgresql.LoginRejected, "no line in pg_hba.conf")
	for name, c := range map[string]struct {
		db               []func(*v1alpha1.ExternalDatabase)
		created, rotated time.Duration // how long ago the Secret was created, and the login was rotated
		login            string        // the login in the Secret; defaults to the owner
		server           *fakeServer
		users            []string
		calls            []string
		waitingFor       string // a part of status.credentials.waitingFor
		previous         string
		events           []string
		requeueAfter     time.Duration // 0 for a periodic check
	}{
		"an old object rotates by the age of its Secret": {
			db: []func(*v1alpha1.ExternalDatabase){everyDay}, created: day + time.Second, calls: []string{
				"rotate to clerk-login1",
			}, previous: "clerk",
			waitingFor: "the end of the grace period", events: []string{"Normal CredentialsRotated"},
		},
		"the next rotation is scheduled when it is near": {
			db: []func(*v1alpha1.ExternalDatabase){everyDay}, created: 2 * day, rotated: day - time.Minute,
			requeueAfter: time.Minute,
		},
		"the next rotation is not scheduled when it is far": {
			db: []func(*v1alpha1.ExternalDatabase){everyDay}, created: 2 * day, rotated: time.Hour,
		},
		"the end of the grace period is scheduled": {
			created: day, rotated: 8 * time.Minute, login: "clerk-login1", server: previousWorks(),
			waitingFor: "the end of the grace period", previous: "clerk", requeueAfter: 2 * time.Minute},
		"users are checked after 5s at first": {
			created: day, rotated: 10*time.Minute + 10*time.Second, login: "clerk-login1", server: previousWorks(),
			users: []string{"App a", "App b"}, waitingFor: "App a, App b", previous: "clerk", requeueAfter: 5 * time.Second},
		"users are checked seldom after a long time": {
			created: day, rotated: 40 * time.Minute, login: "clerk-login1", server: previousWorks(), users: []string{
				"App a",
			}, waitingFor: "App a", previous: "clerk", requeueAfter: 3 * time.Minute},
		"a rotation that was interrupted before the Secret changed begins again": {
			db: []func(*v1alpha1.ExternalDatabase){requested("1")}, created: day, server: previousWorks(),
			calls:      []string{"retire beside clerk", "rotate to clerk-login1"},
			waitingFor: "the end of the grace period", previous: "clerk", events: []string{"Normal CredentialsRotated"},
		},
		"a previous login that can log in again retires again": {
			created: day, rotated: time.Hour, login: "clerk-login1", server: previousWorks(), calls: []string{
				"retire beside clerk-login1",
			},
		},
		"a taken name blocks the rotation": {
			db: []func(*v1alpha1.ExternalDatabase){requested("1")}, created: day, server: &fakeServer{
				found: current().found, rotated: conflictOf(postgresql.Taken),
			},
			calls: []string{"rotate to clerk-login1"}, waitingFor: `run: COMMENT ON ROLE "clerk-login1" IS`,
			events: []string{"Warning RotationBlocked"}, requeueAfter: 5 * time.Minute,
		},
		"a rejected login blocks the rotation": {
			db: []func(*v1alpha1.ExternalDatabase){requested("1")}, created: day, server: &fakeServer{
				found: current().found, rotated: rejected,
			},
			calls: []string{"rotate to clerk-login1"}, waitingFor: "no line in pg_hba.conf", events: []string{
				"Warning RotationBlocked",
			}, requeueAfter: 5 * time.Minute,
		},
		"a role that only a superuser may change blocks the rotation": {
			db: []func(*v1alpha1.ExternalDatabase){requested("1")}, created: day, server: &fakeServer{
				found: current().found, rotated: protected,
			},
			calls: []string{"rotate to clerk-login1"}, waitingFor: "failed: " + advice + ". The login in Secret " +
				"shop-credentials still works.",
			events: []string{"Warning RotationBlocked"}, requeueAfter: 5 * time.Minute,
		},
		"a previous login that only a superuser may change does not retire": {
			created: day, rotated: time.Hour, login: "clerk-login1",
			server: &fakeServer{found: previousWorks().found, retired: protected},
			calls:  []string{"retire beside clerk-login1"}, previous: "clerk",
			waitingFor: "cannot be retired: " + advice + ". The next rotation", events: []string{"Warning RotationBlocked"},
			requeueAfter: 5 * time.Minute,
		},
		"a lost connection is retried soon": {
			db: []func(*v1alpha1.ExternalDatabase){requested("1")}, created: day, server: &fakeServer{
				found: current().found, rotated: errors.New("the connection was lost"),
			},
			calls: []string{"rotate to clerk-login1"}, waitingFor: "the connection was lost", events: []string{
				"Warning RotationBlocked",
			}, requeueAfter: 30 * time.Second,
		},
		"a previous login that does not retire blocks the next rotation": {
			db: []func(*v1alpha1.ExternalDatabase){requested("1")}, created: day, rotated: time.Hour, login: "clerk-login1",
			server: &fakeServer{
				found: previousWorks().found, retired: postgresql.NewError(postgresql.Away, "sessions have not ended"),
			},
			calls: []string{"retire beside clerk-login1"}, waitingFor: "sessions have not ended", previous: "clerk",
			events: []string{"Warning RotationBlocked"}, requeueAfter: 30 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if c.server == nil {
				c.server = current()
			}
			now := time.Now()
			if c.login == "" {
				c.login = "clerk"
			}
			f := newFixture(t, c.server, example(append([]func(*v1alpha1.ExternalDatabase){known}, c.db...)...),
				connectionSecret(), aged(created, now, c.created, c.rotated, c.login))
			f.Clock.SetTime(now.Truncate(time.Second))
			f.users = c.users
			r := f.Reconcile()
			controllertest.ErrorContains(t, "", r.Err)
			controllertest.Equal(t, "calls", append(append([]string{"exists"}, c.calls...), "close"), c.server.calls)
			controllertest.Equal(t, "Ready", metav1.ConditionTrue, f.ready().Status)
			status := f.Object().Status.Credentials
			if status == nil || !strings.Contains(status.WaitingFor, c.waitingFor) ||
				(status.WaitingFor == "") != (c.waitingFor == "") || status.PreviousUsername != c.previous {
				t.Errorf("status.credentials is %+v", status)
			}
			controllertest.Equal(t, "status has the time of the next rotation", f.Object().Spec.Credentials != nil,
				status.NextRotationTime != nil)
			var events []string
			for _, event := range reasons(r.Events) {
				if event != "Normal Available" {
					events = append(events, event)
				}
			}
			controllertest.Equal(t, "events", c.events, events)
			if c.requeueAfter == 0 && !r.Result.Check || c.requeueAfter > 0 &&
				(r.Result.RequeueAfter-c.requeueAfter).Abs() > time.Second {
				t.Errorf("the result is %+v", r.Result)
			}
			again := f.Reconcile()
			controllertest.Equal(t, "events of the next reconcile", nil, again.Events)
		})
	}
}
