//go:build integration

package security

import (
	"testing"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

// canary checks that the operator still works for other tenants: an App of a new tenant must become Ready.
func canary(t *testing.T, on *framework.Installation) {
	t.Helper()
	other := on.NewTenant(t)
	other.CreateApp(t, other.Namespace, "canary", framework.ProbedApp("registry.example.com/canary:1"))
	other.AppIn(t, other.Namespace, "canary", v1alpha1.AppReady)
}

func TestTenantWithShippedRoleCreatesApp(t *testing.T) {
	t.Parallel()
	canary(t, shared)
}
