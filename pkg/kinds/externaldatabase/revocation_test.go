package externaldatabase

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/postgresql"
)

// TestRevocationGoesOnWhileLoginIsBroken has a server on which the user of a login that leaked has broken the login
// in the Secret or the database.
func TestRevocationGoesOnWhileLoginIsBroken(t *testing.T) {
	full := postgresql.NewError(postgresql.Away, "too many connections")
	broken := func(former string, err error) *fakeServer {
		return &fakeServer{found: postgresql.Found{ID: "1/2", Former: former}, update: err}
	}
	unproven := broken("", full)
	unproven.rotated = postgresql.NewError(postgresql.Unproven, "too many connections")
	toFirst := []string{"update", "rotate to clerk-login1"}
	for name, c := range map[string]struct {
		server  *fakeServer
		rotated time.Duration // how long ago; the owner is the login before the first rotation
		calls   []string
		login   string
		reason  string
	}{
		"a rotation begins": {
			server: broken("", full), calls: toFirst, login: "clerk-login1", reason: "ServerUnreachable",
		},
		"a rotation whose next login cannot use the database": {
			server: unproven, calls: toFirst, login: "clerk-login1", reason: "ServerUnreachable",
		},
		"a former login retires": {
			server: broken("clerk", full), rotated: time.Hour,
			calls: []string{"update", "retire beside clerk-login1", "rotate to clerk-login2"},
			login: "clerk-login2", reason: "ServerUnreachable",
		},
		"a former login retires although its user has dropped the database": {
			server: &fakeServer{found: postgresql.Found{Former: "clerk"}}, rotated: time.Hour,
			calls: []string{"retire beside clerk-login1"}, login: "clerk-login1", reason: "DatabaseGone",
		},
		"no rotation begins without a database": {server: &fakeServer{}, login: "clerk", reason: "DatabaseGone"},
		"a rotation of a role that was handed over": {
			server: broken("", postgresql.NewError(postgresql.Kept, "password authentication failed")),
			calls:  toFirst, login: "clerk-login1", reason: "Available",
		},
		"a silent server rotates nothing": {
			server: broken("", postgresql.NewError(postgresql.Silent, "no response")), calls: []string{"update"},
			login: "clerk", reason: "ServerUnreachable",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := rotatingFixture(t, c.server, c.rotated)
			f.Reconcile()
			controllertest.Equal(t, "calls", append(append([]string{"exists"}, c.calls...), "close"), c.server.calls)
			controllertest.Equal(t, "login", c.login, string(f.secret().Data["username"]))
			controllertest.Equal(t, "reason", c.reason, f.ready().Reason)
			controllertest.Equal(t, "Ready", c.reason == "Available", f.ready().Status == metav1.ConditionTrue)
		})
	}
}

// TestHandedOverRoleKeepsPasswordUntilRotation asks for a rotation as the message says.
func TestHandedOverRoleKeepsPasswordUntilRotation(t *testing.T) {
	kept := postgresql.NewError(postgresql.Kept, "password authentication failed")
	server := &fakeServer{found: postgresql.Found{ID: "1/2"}, update: kept}
	f := newFixture(t, server, example(known), connectionSecret(), createdSecret(t))
	r := f.Reconcile()
	controllertest.Equal(t, "reason", "PasswordUnknown", controller.ReasonOf(r.Err))
	controllertest.Equal(t, "phase", v1alpha1.ExternalDatabaseFailed, f.Object().Status.Phase)
	controllertest.ErrorContains(t, "windlass.dev/rotate-credentials=handed-over ", r.Err)
	f.Change(requested("handed-over"))
	server.rotated = postgresql.NewError(postgresql.Away, "locked")
	controllertest.ErrorContains(t, "windlass.dev/rotate-credentials=handed-over-again ", f.Reconcile().Err)
	controllertest.Equal(t, "login after a rotation that failed", "clerk", string(f.secret().Data["username"]))
	server.rotated = nil
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	controllertest.Equal(t, "login", "clerk-login1", string(f.secret().Data["username"]))
}

// TestHandedOverRoleThatCannotLogInGetsStatement has a role with an attribute that keeps its password from working.
func TestHandedOverRoleThatCannotLogInGetsStatement(t *testing.T) {
	conflict := postgresql.Conflict{Remedy: `ALTER ROLE "clerk" LOGIN`}
	kept := postgresql.NewConflict(postgresql.Kept, conflict, "not permitted to log in")
	server := &fakeServer{found: postgresql.Found{ID: "1/2"}, update: kept}
	r := newFixture(t, server, example(known), connectionSecret(), createdSecret(t)).Reconcile()
	controllertest.Equal(t, "reason", "PasswordUnknown", controller.ReasonOf(r.Err))
	for _, advice := range []string{
		`ask the administrator of the server to set a new password and to run: ALTER ROLE "clerk" LOGIN; then put`,
		"into Secret shop-credentials, key password",
		"kubectl -n default annotate externaldatabase shop windlass.dev/rotate-credentials=handed-over --overwrite; ",
	} {
		controllertest.ErrorContains(t, advice, r.Err)
	}
}

func TestOtherNamesAvoidConflict(t *testing.T) {
	r := &reconciler{}
	for names, conflict := range map[string]postgresql.Conflict{
		"another spec.owner":                                        {Role: true},
		"another spec.databaseName":                                 {Database: true},
		"another spec.owner and another spec.databaseName":          {Role: true, Database: true},
		`another spec.databaseName, or with spec.owner: "le\"gacy"`: {Database: true, DatabaseOwner: `le"gacy`},
	} {
		err := r.explain(t.Context(), example(), postgresql.NewConflict(postgresql.Taken, conflict, "taken"))
		controllertest.Equal(t, "message", "taken; create an ExternalDatabase with "+names+" instead", err.Error())
	}
}
