//go:build integration

package hostile

import (
	"testing"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/place"
)

// canary checks that an App of another tenant becomes Ready: the operator works for those who
// have done nothing.
func canary(t *testing.T, on *place.Place) {
	t.Helper()
	other := on.NewTenant(t)
	other.CreateApp(t, other.Namespace, "canary", v1alpha1.AppSpec{Image: "registry.example.com/canary:1"})
	other.AppIn(t, other.Namespace, "canary", v1alpha1.AppReady)
}

func TestTenantsWithTheShippedRolesCanWork(t *testing.T) {
	t.Parallel()
	canary(t, shared)
}
