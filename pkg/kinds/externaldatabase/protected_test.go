package externaldatabase

import (
	"testing"
	"time"

	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/postgresql"
)

// protectedOwn returns the error about a role of the operator that has an attribute of an administrator.
func protectedOwn() error {
	conflict := postgresql.Conflict{Role: true, Remedy: `ALTER ROLE "clerk" NOREPLICATION`}
	return postgresql.NewConflict(postgresql.Protected, conflict, `role "clerk" has REPLICATION`)
}

const advice = `role "clerk" has REPLICATION; ask a superuser of the server to run: ALTER ROLE "clerk" NOREPLICATION`

// TestRotationWaitsForStatementAboutProtectedRole has a server that lets only superusers change a login.
func TestRotationWaitsForStatementAboutProtectedRole(t *testing.T) {
	for name, c := range map[string]struct {
		server     *fakeServer
		rotated    time.Duration
		waitingFor string
	}{
		"of the next login": {
			server: &fakeServer{found: postgresql.Found{ID: "1/2", Current: true}, rotated: protectedOwn()},
			waitingFor: "The rotation of the credentials failed: " + advice +
				". The login in Secret shop-credentials still works.",
		},
		"of the previous login": {
			server:     &fakeServer{found: postgresql.Found{ID: "1/2", Current: true, Former: "clerk"}, retired: protectedOwn()},
			rotated:    time.Hour,
			waitingFor: "The former login clerk cannot be retired: " + advice + ". While it works, no other rotation begins.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := rotatingFixture(t, c.server, c.rotated)
			r := f.Reconcile()
			controllertest.ErrorContains(t, "", r.Err)
			controllertest.Equal(t, "waitingFor", c.waitingFor, f.Object().Status.Credentials.WaitingFor)
			controllertest.Equal(t, "delay before the next attempt", configurationRetry, r.Result.RequeueAfter)
		})
	}
}
