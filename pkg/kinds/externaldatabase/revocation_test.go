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

// TestRevocationGoesOnWhileLoginIsBroken has a server on which the user of a leaked login has broken the login in the
// Secret or the database.
func TestRevocationGoesOnWhileLoginIsBroken(t *testing.T) {
	full := postgresql.NewError(postgresql.Away, "too many connections")
	broken := func(previous string, err error) *fakeServer {
		return &fakeServer{found: postgresql.Found{ID: "1/2", Previous: previous}, ensure: err}
	}
	unproven := broken("", full)
	unproven.rotated = postgresql.NewError(postgresql.Unproven, "too many connections")
	toFirst := []string{"ensure", "rotate to clerk-login1"}
	for name, c := range map[string]struct {
		server  *fakeServer
		rotated time.Duration // how long ago the last rotation was; 0 if there was none, so that the owner is the login
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
		"a previous login retires": {
			server: broken("clerk", full), rotated: time.Hour,
			calls: []string{"ensure", "retire beside clerk-login1", "rotate to clerk-login2"},
			login: "clerk-login2", reason: "ServerUnreachable",
		},
		"a previous login retires although its user has dropped the database": {
			server: &fakeServer{found: postgresql.Found{Previous: "clerk"}}, rotated: time.Hour,
			calls: []string{"retire beside clerk-login1"}, login: "clerk-login1", reason: "DatabaseGone",
		},
		"no rotation begins without a database": {server: &fakeServer{}, login: "clerk", reason: "DatabaseGone"},
		"a rotation of a role that was handed over": {
			server: broken("", postgresql.NewError(postgresql.Kept, "password authentication failed")),
			calls:  toFirst, login: "clerk-login1", reason: "Available",
		},
		"a silent server rotates nothing": {
			server: broken("", postgresql.NewError(postgresql.Silent, "no response")), calls: []string{"ensure"},
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

// TestHandedOverRoleKeepsPasswordUntilRotation requests a rotation with the command in the message.
func TestHandedOverRoleKeepsPasswordUntilRotation(t *testing.T) {
	kept := postgresql.NewError(postgresql.Kept, "password authentication failed")
	server := &fakeServer{found: postgresql.Found{ID: "1/2"}, ensure: kept}
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

func TestAdviceDependsOnConflict(t *testing.T) {
	const otherNames, other = "failed. Create an ExternalDatabase with ", "another spec.databaseName"
	for want, err := range map[string]struct {
		class    postgresql.Class
		conflict postgresql.Conflict
	}{
		otherNames + "another spec.owner instead.": {postgresql.Taken, postgresql.Conflict{Role: true}},
		otherNames + other + " instead.":           {postgresql.Taken, postgresql.Conflict{Database: true}},
		otherNames + "another spec.owner and " + other + " instead.": {
			postgresql.Taken, postgresql.Conflict{Role: true, Database: true},
		},
		otherNames + other + `, or with spec.owner: "le\"gacy" instead.`: {
			postgresql.Taken, postgresql.Conflict{Database: true, DatabaseOwner: `le"gacy`},
		},
		`failed. Ask a superuser of the server to run: ALTER ROLE "clerk" NOREPLICATION`: {
			postgresql.Protected, postgresql.Conflict{Role: true, Remedy: `ALTER ROLE "clerk" NOREPLICATION`},
		},
		"failed. The operator does not change this role. To use a new login instead of this role, run `kubectl -n default " +
			"annotate externaldatabase shop windlass.dev/rotate-credentials=handed-over --overwrite`; role \"clerk\" can then " +
			"no longer log in after the grace period. To keep using this role, ask the administrator of the server to set a " +
			"new password and to run: ALTER ROLE \"clerk\" LOGIN; then put the password into Secret shop-credentials, key " +
			"password.": {
			postgresql.Kept, postgresql.Conflict{Remedy: `ALTER ROLE "clerk" LOGIN`},
		},
	} {
		got := (&reconciler{}).explain(t.Context(), example(), postgresql.NewConflict(err.class, err.conflict, "failed"))
		controllertest.Equal(t, "message", want, got.Error())
	}
}
