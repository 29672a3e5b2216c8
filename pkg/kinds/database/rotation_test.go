package database

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/credentials"
	"windlass.dev/windlass/pkg/postgresql"
)

// requested returns a change that sets the annotation that requests a rotation.
func requested(value string) func(*v1alpha1.Database) {
	return func(db *v1alpha1.Database) {
		metav1.SetMetaDataAnnotation(&db.ObjectMeta, credentials.RotateAnnotation, value)
	}
}

// loginsOf returns each role of the settings with its state, and the login in the connection Secret.
func (f fixture) loginsOf() string {
	words := []string{string(f.secret().Data[credentials.KeyUsername]) + ":"}
	for i, name := range namesOf("app") {
		words = append(words, name+"="+string(f.settings().Data[roles[i]+stateSuffix]))
	}
	return strings.Join(words, " ")
}

// rotating returns a Database for which a rotation is requested, its fake server, and the known users of its previous
// login.
func rotating(t *testing.T, changes ...func(*v1alpha1.Database)) (fixture, *fakeServer, *[]string) {
	t.Helper()
	var users []string
	f, server := runningWith(t, Options{Users: func(*corev1.Secret) []string { return users }}, changes...)
	f.Change(requested("1"))
	return f, server, &users
}

func TestRotationSteps(t *testing.T) {
	f, server, users := rotating(t)
	f.changeSecret(func(s *corev1.Secret) { s.Data["jdbc-url"] = []byte("theirs") })
	step := func(when, logins, waitingFor string, writes ...string) controller.Result {
		t.Helper()
		r := f.Reconcile()
		controllertest.ErrorContains(t, "", r.Err)
		controllertest.Equal(t, "writes "+when, writes, r.Writes)
		controllertest.Equal(t, "logins "+when, logins, f.loginsOf())
		controllertest.Equal(t, "waiting "+when, waitingFor, f.Object().Status.Credentials.WaitingFor)
		return r.Result
	}
	server.rejectsNext, server.old = true, true
	step("before the server has the password", "app: app=Password app-login1=Password app-login2=None",
		"PostgreSQL to accept the login app-login1", patchSettings, patchPod, updateStatus)
	server.rejectsNext, server.old = false, false
	started := f.Clock.Now()
	waiting := "the end of the grace period at " +
		started.Add(credentials.DefaultGracePeriod).UTC().Truncate(time.Second).Format(time.RFC3339)
	step("after the server accepts it", "app-login1: app=Password app-login1=Password app-login2=None", waiting,
		patchSecret, updateStatus)
	step("in the grace period", "app-login1: app=Keep app-login1=Password app-login2=None", waiting, patchSettings,
		patchPod, updateStatus)
	*users = []string{"App web"}
	f.Clock.Step(credentials.DefaultGracePeriod + time.Second)
	again := step("while an App uses the previous login", "app-login1: app=Keep app-login1=Password app-login2=None",
		"App web", updateStatus).RequeueAfter
	if again != 5*time.Second {
		t.Errorf("the users are looked at again after %s", again)
	}
	*users = nil
	step("after the App was replaced", "app-login1: app=None app-login1=Password app-login2=None", "", patchSettings,
		patchPod, updateStatus)
	step("at rest", "app-login1: app=None app-login1=Password app-login2=None", "")
	f.Change(requested("2"))
	server.rejectsNext, server.old = true, true
	step("at the next request", "app-login1: app=None app-login1=Password app-login2=Password",
		"PostgreSQL to accept the login app-login2", patchSettings, patchPod, updateStatus)
	controllertest.Equal(t, "key of another client", "theirs", string(f.secret().Data["jdbc-url"]))
	events := strings.Join(f.Events.Events(), "\n")
	for _, want := range []string{"Normal CredentialsRotated", "Normal PreviousLoginRetired"} {
		if strings.Count(events, want) != 1 {
			t.Errorf("the Events are\n%s\nwant one with %q", events, want)
		}
	}
}

// TestRotationSurvivesLostRequests makes requests of a rotation fail. After each failure, a new process continues.
func TestRotationSurvivesLostRequests(t *testing.T) {
	lost := apierrors.NewInternalError(errors.New("the response was lost"))
	for name, request := range map[string][2]string{
		"the read of the Database":          {"get", "databases"},
		"the read of the connection Secret": {"get", "secrets"},
		"a write of a Secret":               {"patch", "secrets"},
		"the annotation of the Pod":         {"patch", "pods"},
		"the write of the status":           {"update", "databases"},
	} {
		t.Run(name, func(t *testing.T) {
			f, _, _ := rotating(t)
			for range 6 {
				f.Journal.FailNext(request[0], request[1], lost)
				f.Reconcile()
				f.Restart()
				if next := f.loginsOf(); strings.HasPrefix(next, "app-login1:") && strings.Contains(next, "app-login1=None") {
					t.Fatalf("the login in the Secret cannot log in: %s", next)
				}
				f.Reconcile()
			}
			f.Clock.Step(credentials.DefaultGracePeriod)
			for range 6 {
				f.Reconcile()
			}
			controllertest.Equal(t, "logins", "app-login1: app=None app-login1=Password app-login2=None", f.loginsOf())
			controllertest.Equal(t, "password of the login", string(f.secret().Data[credentials.KeyPassword]),
				string(f.settings().Data["alternate1.password"]))
		})
	}
}

func TestRotationWithOutdatedCacheEndsNoLogin(t *testing.T) {
	f, _, _ := rotating(t)
	for range 3 {
		f.Reconcile()
	}
	controllertest.Equal(t, "logins", "app-login1: app=Keep app-login1=Password app-login2=None", f.loginsOf())
	f.Clock.Step(credentials.DefaultGracePeriod)
	before := f.settings()
	f.Observe()
	f.changeSecret(func(s *corev1.Secret) { s.Data[credentials.KeyPassword] = []byte("theirs") })
	if r := f.ReconcileAsCached(); !errors.Is(r.Err, controller.Postpone(time.Second)) {
		t.Errorf("the error is %v", r.Err)
	}
	controllertest.Equal(t, "settings", before.Data, f.settings().Data)
}

func TestRotationWithOutdatedScheduleEndsNoLogin(t *testing.T) {
	longer := &v1alpha1.CredentialsSpec{GracePeriod: &metav1.Duration{Duration: 2 * credentials.DefaultGracePeriod}}
	for name, c := range map[string]struct {
		passes int // before the change
		change func(*v1alpha1.Database)
		logins string
	}{
		"a request that was withdrawn": {
			0, func(db *v1alpha1.Database) { db.Annotations = nil }, "app: app=Password app-login1=None app-login2=None",
		},
		"a longer grace period": {
			3, func(db *v1alpha1.Database) { db.Spec.Credentials = longer },
			"app-login1: app=Keep app-login1=Password app-login2=None",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, _, _ := rotating(t)
			for range c.passes {
				f.Reconcile()
			}
			f.Clock.Step(credentials.DefaultGracePeriod)
			f.Observe()
			f.Change(c.change)
			if r := f.ReconcileAsCached(); !errors.Is(r.Err, controller.Postpone(time.Second)) {
				t.Errorf("the error is %v", r.Err)
			}
			controllertest.Equal(t, "logins", c.logins, f.loginsOf())
		})
	}
}

func TestRotationWaitsForProof(t *testing.T) {
	for name, c := range map[string]struct {
		disturb    func(*fakeServer)
		after      time.Duration
		waitingFor string
		err        string
	}{
		"a server that rejects the next login, and says why": {
			disturb:    func(s *fakeServer) { s.rejectsNext, s.seen.Problem = true, "A role app-login1 exists." },
			waitingFor: "PostgreSQL to accept the settings; see the condition Ready",
			err:        "A role app-login1 exists.",
		},
		"a server that the operator cannot reach": {
			disturb: func(s *fakeServer) { s.err = postgresql.NewError(postgresql.Silent, "no response") }, after: settleTime,
			waitingFor: "the operator to log in as app-login1; the operator must be able to connect to the Pod, and must not " +
				"have --connect-to-databases=false",
		},
		"a server without free connections": {
			disturb:    func(s *fakeServer) { s.err = postgresql.NewError(postgresql.Away, "too many connections") },
			waitingFor: "PostgreSQL to accept the login app-login1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, server, _ := rotating(t)
			c.disturb(server)
			for range 3 {
				controllertest.ErrorContains(t, c.err, f.Reconcile().Err)
				f.Clock.Step(c.after)
			}
			controllertest.Equal(t, "logins", "app: app=Password app-login1=Password app-login2=None", f.loginsOf())
			controllertest.Equal(t, "waiting", c.waitingFor, f.Object().Status.Credentials.WaitingFor)
		})
	}
}

// TestRotationNeedsNoConnection has a server that accepts the next password, but has no connection left.
func TestRotationNeedsNoConnection(t *testing.T) {
	f, server, _ := rotating(t)
	server.err = postgresql.NewError(postgresql.Unproven, "too many connections")
	for range 2 {
		controllertest.ErrorContains(t, "", f.Reconcile().Err)
	}
	const before = "app: app=Password app-login1=Password app-login2=None"
	const after = "app-login1: app=Password app-login1=Password app-login2=None"
	controllertest.Equal(t, "logins before the script has applied the settings", before, f.loginsOf())
	f.Clock.Step(settleTime)
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	controllertest.Equal(t, "logins", after, f.loginsOf())
}

func TestDeletedSecretKeepsLogin(t *testing.T) {
	f, _, _ := rotating(t)
	for range 3 {
		f.Reconcile()
	}
	before := f.secret()
	f.Remove(before)
	f.Reconcile()
	controllertest.Equal(t, "logins", "app-login1: app=Keep app-login1=Password app-login2=None", f.loginsOf())
	checkGenerated(t, string(before.Data[credentials.KeyPassword]), string(f.secret().Data[credentials.KeyPassword]))
}

func TestLoginsIgnoreWhatTheOperatorNeverWrites(t *testing.T) {
	f, _, _ := rotating(t)
	for range 3 {
		f.Reconcile()
	}
	for name, data := range map[string]map[string]string{
		"an unknown state":            {"alternate2.login": "Superuser"},
		"a state in another case":     {"alternate2.login": "keep"},
		"an unknown current login":    {"currentLogin": "postgres"},
		"an empty current login":      {"currentLogin": ""},
		"a name of another role":      {"alternate2": "postgres"},
		"a role that does not exist":  {"alternate3": "app-login3", "alternate3.login": "Password"},
		"a state without its role":    {"alternate2": "", "alternate2.login": "None"},
		"a password without its role": {"alternate2.password": "theirs"},
	} {
		t.Run(name, func(t *testing.T) {
			settings := f.settings()
			want, _ := loginsIn("app", f.secret(), settings)
			for key, value := range data {
				settings.Data[key] = []byte(value)
			}
			got, moved := loginsIn("app", f.secret(), settings)
			if got != want || moved {
				t.Errorf("the logins are %+v, and moved is %t, want %+v and false", got, moved, want)
			}
		})
	}
}
